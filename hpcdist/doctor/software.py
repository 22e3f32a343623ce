"""Checks of Python and the packages that jobs import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.doctor.finding import Finding
from hpcdist.doctor.records import Host

_FRAMEWORKS: Final = ("horovod", "torch", "tensorflow", "mxnet", "jax", "mpi4py")
_BY_HOROVOD: Final = {"pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet"}
"""The packages that Horovod is built for, by Horovod's names of them."""


def findings(host: Host, *, gpus: bool) -> Iterator[Finding]:
    """Yield the findings; ``gpus``: whether the machine has GPUs."""
    yield Finding("python", "python", "ok", f"{host.python}, {host.executable}")
    if not any(name in host.packages for name in _FRAMEWORKS):
        detail = f"{host.executable} has none of {', '.join(_FRAMEWORKS)}"
        hint = "load the module, or activate the environment, with which the job is to run"
        yield Finding("python", "packages", "note", detail, hint)
    for name, version in host.packages.items():
        if name == "horovod":
            yield _horovod(host, gpus=gpus)
        else:
            yield Finding("python", name, "ok", version or "it is installed, without version metadata")


def _horovod(host: Host, *, gpus: bool) -> Finding:
    operations = [name for name in ("mpi", "gloo", "nccl") if name in host.built]
    frameworks = {name: text for name, text in host.built.items() if text}
    what = [f"{name} {text}" for name, text in frameworks.items()] + operations
    detail = f"{host.packages['horovod']}, built with {', '.join(what) or 'nothing recognized'}"
    for name, version in frameworks.items():
        installed = host.packages.get(_BY_HOROVOD.get(name, name))
        if installed and installed != version:
            detail += f"; installed is {name} {installed}"
            hint = "build Horovod again: `pip install --no-cache-dir --force-reinstall --no-deps horovod`"
            return Finding("python", "horovod", "warning", detail, hint)
    if gpus and "nccl" not in operations:
        hint = (
            "its all-reduces of GPU data pass through host memory; build it with HOROVOD_GPU_OPERATIONS=NCCL"
        )
        return Finding("python", "horovod", "note", detail, hint)
    return Finding("python", "horovod", "ok", detail)

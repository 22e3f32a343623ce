"""Python and the packages that jobs import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.doctor.finding import Finding
from hpcdist.doctor.records import Host

_FRAMEWORKS: Final = ("horovod", "torch", "tensorflow", "mxnet", "jax", "mpi4py")
_BY_HOROVOD: Final = {"pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet"}
"""The packages of what Horovod is built with, by the name that it has for them."""


def findings(host: Host, *, gpus: bool) -> Iterator[Finding]:
    """Yield what is found of Python and the packages; ``gpus``: the machine has some."""
    yield Finding("python", "python", "ok", f"{host.python}, {host.executable}")
    if not any(name in host.packages for name in _FRAMEWORKS):
        seen = f"{host.executable} has none of {', '.join(_FRAMEWORKS)}"
        do = "load the module, or activate the environment, with which the job is to run"
        yield Finding("python", "packages", "note", seen, do)
    for name, version in host.packages.items():
        if name == "horovod":
            yield _horovod(host, gpus=gpus)
        else:
            yield Finding("python", name, "ok", version or "it is there, and does not tell its version")


def _horovod(host: Host, *, gpus: bool) -> Finding:
    operations = [name for name in ("mpi", "gloo", "nccl") if name in host.built]
    made_for = {name: text for name, text in host.built.items() if text}
    what = [f"{name} {text}" for name, text in made_for.items()] + operations
    seen = f"{host.packages['horovod']}, built with {', '.join(what) or 'nothing that is known'}"
    for name, version in made_for.items():
        here = host.packages.get(_BY_HOROVOD.get(name, name))
        if here and here != version:
            seen += f"; here is {name} {here}"
            do = "build Horovod again: `pip install --no-cache-dir --force-reinstall --no-deps horovod`"
            return Finding("python", "horovod", "warning", seen, do)
    if gpus and "nccl" not in operations:
        do = "its GPU jobs sum by way of the host's memory; build it with HOROVOD_GPU_OPERATIONS=NCCL"
        return Finding("python", "horovod", "note", seen, do)
    return Finding("python", "horovod", "ok", seen)

"""A standalone program: what one Python sees of one host. It needs no hpcdist, and Python 3.8 or later.

``python host_info.py`` prints one JSON document, ``python host_info.py FILE`` writes it: a
`finding.HostRecord`. It changes nothing and imports none of the packages: versions are from their metadata.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

PACKAGES = ("hpcdist", "horovod", "torch", "tensorflow", "mxnet", "jax", "mpi4py")

FABRIC = (
    "CCL_", "CXI_", "FI_", "GLOO_", "MPICH_", "NCCL_", "OFI_NCCL_", "OMPI_MCA_", "RCCL_", "TORCH_NCCL_",
    "UCX_",
)  # fmt: skip
"""Prefixes of the variables that configure the network's libraries."""

_BUILT = {"mpi": b"MPI_Init_thread", "gloo": b"GlooContext", "nccl": b"NCCLOpContext"}
"""A symbol in Horovod's libraries for each kind of operation that a build may have."""

_DRIVERS = (
    ("libcuda.so.1", "cuInit", "cuDeviceGetCount"),
    ("libamdhip64.so", "hipInit", "hipGetDeviceCount"),
)
_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE of cuda.h, and hipErrorNoDevice of hip_runtime_api.h."""


def collect() -> dict[str, Any]:
    """Return the fields of `finding.HostRecord`."""
    count, source = gpus()
    return {
        "host": socket.gethostname(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "packages": packages(),
        "built": built(),
        "shm": shm(),
        "limits": limits(),
        "interfaces": interfaces(),
        "ports": ports(),
        "gpus": count,
        "gpus_source": source,
        "variables": {name: value for name, value in os.environ.items() if name.startswith(FABRIC)},
        "supervised": "HPCDIST_TRACKING" in os.environ,
    }


def packages() -> dict[str, str]:
    """Return the version of each installed package; "" for one without metadata."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name) or ""  # None where a failed pip left an empty folder
        except metadata.PackageNotFoundError:
            spec = util.find_spec(name)
            if spec and spec.origin:
                found[name] = ""
    return found


def built() -> dict[str, str]:
    """Return what Horovod was built with: frameworks with their versions, operations with ""."""
    spec = util.find_spec("horovod")
    if not spec or not spec.origin:
        return {}
    folder = Path(spec.origin).parent
    frameworks = json.loads(_text(folder / "metadata.json") or "{}")
    libraries = [file.read_bytes() for file in folder.glob("*/mpi_lib*.so")]
    operations = {name: "" for name, mark in _BUILT.items() if any(mark in data for data in libraries)}
    return {**{name: text for name, text in frameworks.items() if name != "dummy"}, **operations}


def shm() -> tuple[int, int] | None:
    """Return the size of /dev/shm and its free space, in bytes; None if there is no /dev/shm."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 - only its size is read
    except OSError:
        return None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def limits() -> dict[str, list[int | None]]:
    """Return the soft and the hard limit by name, in the kernel's units (bytes, numbers); None: unlimited."""
    return {
        name: [
            None if value == resource.RLIM_INFINITY else value
            for value in resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        ]
        for name in ("nofile", "memlock", "stack", "nproc")
    }


def interfaces() -> dict[str, str]:
    """Return the state of each network interface as the kernel reports it: up, down, unknown."""
    return {folder.name: _text(folder / "operstate") for folder in sorted(Path("/sys/class/net").glob("*"))}


def ports() -> list[dict[str, str]]:
    """Return the ports of the devices in /sys/class/infiniband."""
    return [
        {
            "name": f"{port.parts[-3]}:{port.name}",
            "state": _text(port / "state").rpartition(" ")[2],
            "rate": _text(port / "rate"),
            "layer": _text(port / "link_layer"),
        }
        for port in sorted(Path("/sys/class/infiniband").glob("*/ports/*"))
    ]


def gpus() -> tuple[int | None, str]:
    """Return how many GPUs the driver shows to this process, and its library; or None, and the reason."""
    for library, init, count in _DRIVERS:
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            continue
        number = ctypes.c_int()
        code = getattr(driver, init)(0) or getattr(driver, count)(ctypes.byref(number))
        if code in (0, _NO_DEVICE):
            return number.value, library
        return None, f"{init} of {library} failed with code {code}"
    return None, f"there is neither {' nor '.join(driver[0] for driver in _DRIVERS)}"


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def main() -> None:
    """Print the JSON document, or write it to the file that the first argument names."""
    text = json.dumps({"host": collect()})
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text)  # noqa: T201 - printing is its purpose


if __name__ == "__main__":
    main()

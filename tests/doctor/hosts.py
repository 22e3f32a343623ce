"""Hosts and tasks for tests: what a good one wrote, with changes."""

from __future__ import annotations

from typing import Any

import msgspec

from hpcdist.doctor.records import Clock, Host, Meeting, Sum, Task

GOOD = Host(
    host="n1",
    python="3.11.2",
    executable="/usr/bin/python",
    packages={"torch": "2.3.0", "horovod": "0.28.1", "mpi4py": "4.0.0"},
    built={"pytorch": "2.3.0", "mpi": "", "gloo": "", "nccl": ""},
    shm=(64 << 30, 60 << 30),
    limits={
        "nofile": (1024, 65536),
        "memlock": (None, None),
        "stack": (8 << 20, None),
        "nproc": (100000, 100000),
    },
    interfaces={"eth0": "up", "lo": "unknown"},
    ports=(),
    gpus=1,
    gpus_why="libcuda.so.1",
    variables={"GLOO_SOCKET_IFNAME": "eth0"},
)
NAMES: dict[str, tuple[str, ...]] = {"n1": ("10.77.0.11",), "n2": ("10.77.0.12",)}
SUMS = (
    Sum("sockets", 2, 8 << 20, right=True, seconds=0.1),
    Sum("torch 2.3.0 nccl", 2, 8 << 20, right=True, seconds=0.001),
)


def host(**changes: Any) -> Host:
    """Return a good host with these changes."""
    return msgspec.structs.replace(GOOD, **changes)


def task(rank: int, own: Host = GOOD, **changes: Any) -> Task:
    """Return what the task of this rank wrote, each on a node of its own."""
    met = Meeting(rank, rank, NAMES, "", Clock(0.0, 0.0), SUMS)
    return Task(own, msgspec.structs.replace(met, **changes))

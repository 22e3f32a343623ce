"""Records of hosts and tasks for tests: healthy ones, with changes."""

from __future__ import annotations

from typing import Any

import msgspec

from hpcdist.checks.finding import AllReduce, Clock, Connectivity, HostRecord, TaskRecord

GOOD = HostRecord(
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
    gpus_source="libcuda.so.1",
    variables={"GLOO_SOCKET_IFNAME": "eth0"},
    supervised=True,
)
NAMES: dict[str, tuple[str, ...]] = {"n1": ("10.77.0.11",), "n2": ("10.77.0.12",)}
ALLREDUCES = (
    AllReduce("sockets", ranks=2, bytes=8 << 20, correct=True, seconds=0.1),
    AllReduce("torch", "torch 2.3.0 nccl", "nccl", 2, 8 << 20, correct=True, seconds=0.001),
)


def host(**changes: Any) -> HostRecord:
    """Return a healthy host with these changes."""
    return msgspec.structs.replace(GOOD, **changes)


def task(
    rank: int, own: HostRecord = GOOD, allreduces: tuple[AllReduce, ...] = ALLREDUCES, **changes: Any
) -> TaskRecord:
    """Return the record of the task of this rank, each on a node of its own."""
    sockets = tuple(one for one in allreduces if one.library == "sockets")
    connectivity = Connectivity(rank, rank, NAMES, "", Clock(0.0, 0.0), sockets)
    others = tuple(one for one in allreduces if one.library != "sockets")
    return TaskRecord(own, msgspec.structs.replace(connectivity, **changes), others)

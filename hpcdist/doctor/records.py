"""The JSON records that the doctor's programs write; anything else is read as None."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_BYTES: Final = 1 << 22
_GB: Final = 1e9


class Host(msgspec.Struct, frozen=True):
    """What one Python sees of one host (host_info.py).

    ``packages``: version by name, "" if unknown; ``built``: what Horovod was built with. ``shm``: size and
    free bytes of /dev/shm. ``limits``: soft and hard, None for unlimited. ``gpus``: how many the driver shows
    to this process; where it is None, ``gpus_source`` is the reason. ``variables``: those of the network.
    ``supervised``: it is a task of a job that has the supervisor.
    """

    host: str
    python: str
    executable: str
    packages: dict[str, str]
    built: dict[str, str]
    shm: tuple[int, int] | None
    limits: dict[str, tuple[int | None, int | None]]
    interfaces: dict[str, str]
    ports: tuple[Port, ...]
    gpus: int | None
    gpus_source: str
    variables: dict[str, str]
    supervised: bool = False


class Port(msgspec.Struct, frozen=True):
    """A port of an InfiniBand device, such as ``mlx5_0:1``, as the kernel reports it (ACTIVE, 200 Gb/sec)."""

    name: str
    state: str
    rate: str
    layer: str


class Clock(msgspec.Struct, frozen=True):
    """By how many seconds the clock of rank 0's node is ahead, and how exactly that is known."""

    offset: float
    uncertainty: float


class AllReduce(msgspec.Struct, frozen=True):
    """One all-reduce of ``bytes`` over the ranks that the library saw; ``error``: why it failed."""

    library: str
    ranks: int = 0
    bytes: int = 0
    correct: bool = False
    seconds: float = 0.0
    error: str = ""

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes per time in GB/s: algbw of nccl-tests."""
        return self.bytes / max(self.seconds, 1e-9) / _GB

    @property
    def bus_bandwidth(self) -> float:
        """The same times 2(n-1)/n, GB/s: busbw (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
        return self.algorithm_bandwidth * 2 * (self.ranks - 1) / max(self.ranks, 1)


class Connectivity(msgspec.Struct, frozen=True):
    """How one task reached the others (connectivity.py, allreduce.py).

    ``names``: the addresses of each node of the job as this node resolves them, or an error in brackets.
    """

    rank: int
    node: int
    names: dict[str, tuple[str, ...]]
    error: str
    clock: Clock | None = None
    allreduces: tuple[AllReduce, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """The record of one task."""

    host: Host
    connectivity: Connectivity | None = None


def read(text: str) -> Task | None:
    """Return the record in this text, None if it is not one."""
    try:
        return msgspec.json.decode(text, type=Task)
    except msgspec.DecodeError:
        return None

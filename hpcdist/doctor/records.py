"""What the doctor's programs write, read at the border; what is none of it is told, and never guessed."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_BYTES: Final = 1 << 22
_GB: Final = 1e9


class Host(msgspec.Struct, frozen=True):
    """What one host shows to one Python (look.py).

    ``packages`` by name, "" without a version; ``built``: what Horovod was built with. ``shm``: size and free
    bytes of /dev/shm. ``limits``: soft and hard, None for unlimited. ``gpus``: how many the driver shows to
    this process, None where ``gpus_why`` tells why that is not known. ``variables``: those of the network.
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
    gpus_why: str
    variables: dict[str, str]


class Port(msgspec.Struct, frozen=True):
    """A port of an InfiniBand device, such as ``mlx5_0:1``, in the kernel's words (ACTIVE, 200 Gb/sec)."""

    name: str
    state: str
    rate: str
    layer: str


class Clock(msgspec.Struct, frozen=True):
    """How far the clock of rank 0's node is ahead, in seconds, give or take so many."""

    ahead: float
    give_or_take: float


class Sum(msgspec.Struct, frozen=True):
    """One all-reduce of ``bytes`` over so many ranks as the library saw; ``error`` where it failed."""

    by: str
    ranks: int = 0
    bytes: int = 0
    right: bool = False
    seconds: float = 0.0
    error: str = ""

    @property
    def algorithm(self) -> float:
        """Bytes by time in GB/s: what nccl-tests calls algbw."""
        return self.bytes / max(self.seconds, 1e-9) / _GB

    @property
    def bus(self) -> float:
        """The same times 2(n-1)/n, GB/s: busbw (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
        return self.algorithm * 2 * (self.ranks - 1) / max(self.ranks, 1)


class Meeting(msgspec.Struct, frozen=True):
    """How one task met the others (meet.py, add_up.py).

    ``names``: the addresses of each node of the job as this one resolves them, or an error in brackets.
    """

    rank: int
    node: int
    names: dict[str, tuple[str, ...]]
    error: str
    clock: Clock | None = None
    sums: tuple[Sum, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """All that one task wrote."""

    host: Host
    meeting: Meeting | None = None


def read(text: str) -> Task | None:
    """Return what a program wrote, None for anything else."""
    try:
        return msgspec.json.decode(text, type=Task)
    except msgspec.DecodeError:
        return None

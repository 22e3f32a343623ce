"""A finding: what was checked, the result, and what to do; and the records that the tasks of a job write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import comma_list
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers import answers
from hpcdist.schedulers.surveyors import SurveyAnswers

Status = Literal["ok", "note", "warning", "error", "unknown"]

Which = Callable[[str], str | None]
"""Returns the path of a program on PATH, else None: ``shutil.which``."""


class CheckFinding(NamedTuple):
    """The result of one check; ``hint`` is what to do about it, empty if nothing needs to be done.

    ``note``: worth knowing; ``warning``: jobs may fail or be slow; ``error``: jobs will fail.
    ``unknown``: it could not be checked, and ``detail`` has the reason. ``numbers``: those in ``detail``.
    """

    group: str
    name: str
    status: Status
    detail: str
    hint: str = ""
    numbers: tuple[tuple[str, float], ...] = ()

    @property
    def needs_action(self) -> bool:
        """Whether it is a warning or an error."""
        return self.status in ("warning", "error")


def run_it_yourself(command: Command | str) -> str:
    """Return the hint for a command that failed or printed nothing readable."""
    return f"run `{command}` yourself; if it fails too, ask the centre"


def result_of(answers: SurveyAnswers, command: Command) -> Completed:
    """Return the result of a command; one that was not run counts as missing."""
    results = (done for done in answers.completed if done.command == command)
    return next(results, Completed(command, 127, missing=True))


def failure(done: Completed) -> str:
    """Return why a command failed, with the first line of its error output."""
    program = done.command.argv[0]
    if done.missing:
        return f"there is no {program} here"
    lines = (line.strip() for line in done.stderr.splitlines() if line.strip())
    return f"{program} failed: {answers.why(done, next(lines, None))}"


def merged_hosts(found: Iterable[tuple[str, CheckFinding]]) -> Iterator[CheckFinding]:
    """Yield the findings of several hosts; equal ones once, with the names of the hosts in front."""
    hosts_of: dict[CheckFinding, dict[str, None]] = {}
    for host, finding in found:
        hosts_of.setdefault(finding, {})[host] = None
    for finding, hosts in hosts_of.items():
        yield finding._replace(detail=f"{comma_list(hosts)}: {finding.detail}")


# --- The JSON records of the programs that tasks run; anything else is read as None

MAX_BYTES: Final = 1 << 22
_GB: Final = 1e9


class HostRecord(msgspec.Struct, frozen=True):
    """What one Python sees of one host (host_info.py)."""

    host: str
    python: str
    executable: str
    packages: dict[str, str]
    """The version of each package that is installed; empty if it is unknown."""
    built: dict[str, str]
    """What Horovod was built with."""
    shm: tuple[int, int] | None
    """The size of /dev/shm, and its free bytes."""
    limits: dict[str, tuple[int | None, int | None]]
    """The soft and the hard limit by name; None is unlimited."""
    interfaces: dict[str, str]
    """The state of each network interface."""
    ports: tuple[Port, ...]
    gpus: int | None
    """How many GPUs the driver shows to this process."""
    gpus_source: str
    """The driver's library, or the reason where ``gpus`` is None."""
    variables: dict[str, str]
    """The variables of the network's libraries."""
    supervised: bool = False
    """Whether it is a task of a job that has the supervisor."""


class Port(msgspec.Struct, frozen=True):
    """A port of an InfiniBand device, such as ``mlx5_0:1``, as the kernel reports it (ACTIVE, 200 Gb/sec)."""

    name: str
    state: str
    rate: str
    layer: str


class Clock(msgspec.Struct, frozen=True):
    """How many seconds the clock of rank 0's node is ahead, and the error of that."""

    offset: float
    uncertainty: float


class Pair(NamedTuple):
    """Two nodes by number, the smaller first; the bandwidth of each direction in GB/s."""

    left: int
    right: int
    bandwidth: float


class AllReduce(msgspec.Struct, frozen=True):
    """What a task measured by one library (allreduce.py, and connectivity.py by sockets)."""

    library: str
    """sockets, torch, mpi4py or horovod."""
    title: str = ""
    """The library with its version."""
    network: str = ""
    """mpi, nccl or gloo."""
    ranks: int = 0
    """How many ranks the library sees."""
    bytes: int = 0
    """How many bytes are summed."""
    correct: bool = False
    """Whether the sum is right."""
    seconds: float = 0.0
    """The best time of the slowest rank."""
    pairs: tuple[Pair, ...] = ()
    """The bandwidths between pairs of nodes; only rank 0 has these and the next fields, but the error."""
    wrong: tuple[tuple[int, int], ...] = ()
    """The nodes between which data changed: from, to."""
    versions: dict[str, str] = {}
    """The versions of the libraries and of the driver."""
    variables: dict[str, tuple[str | None, ...]] = {}
    """The tasks' values of the variables that are tried; None if unset."""
    error: str = ""
    """Why it failed."""

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes per time in GB/s: algbw of nccl-tests."""
        return self.bytes / max(self.seconds, 1e-9) / _GB

    @property
    def bus_bandwidth(self) -> float:
        """The same times 2(n-1)/n, GB/s: busbw (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
        return self.algorithm_bandwidth * 2 * (self.ranks - 1) / max(self.ranks, 1)


class Connectivity(msgspec.Struct, frozen=True):
    """How one task reached the others (connectivity.py).

    ``names``: the addresses of each node of the job as this node resolves them, or an error in brackets.
    """

    rank: int
    node: int
    names: dict[str, tuple[str, ...]]
    error: str
    clock: Clock | None = None
    allreduces: tuple[AllReduce, ...] = ()


class TaskRecord(msgspec.Struct, frozen=True):
    """The record of one task in the first launch."""

    host: HostRecord
    connectivity: Connectivity | None = None
    allreduces: tuple[AllReduce, ...] = ()

    @property
    def nodes(self) -> list[str]:
        """The names of the job's nodes by number."""
        return [*self.connectivity.names] if self.connectivity else []


class LaunchRecord(msgspec.Struct, frozen=True):
    """The record of rank 0 in a further launch."""

    allreduces: tuple[AllReduce, ...] = ()


Record = TypeVar("Record", TaskRecord, LaunchRecord)


def read_record(text: str | bytes, kind: type[Record]) -> Record | None:
    """Return the record in this text, None if it is not one."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None


def read_file(directory: RunDirectory, file: str, kind: type[Record]) -> Record | None:
    """Return the record in a file of a run, None if it has none."""
    try:
        return read_record(directory.read(file, MAX_BYTES), kind)
    except OSError:
        return None

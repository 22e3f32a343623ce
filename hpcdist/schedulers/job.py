"""A job: a submitted script, its identity, its state, and the accounting records of its starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

SIGNALLED: Final = 128
"""An exit code above it means that a signal ended the program, as in shells: 128 + signal."""

TERMINATED: Final = SIGNALLED + 15
"""The exit code of a program that SIGTERM ended."""

LATEST: Final = 253402300799
"""The last second of the year 9999, the limit of ``datetime``."""

NODE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""The name of a node, which is safe as a word of a command."""

APART: Final = "component "
"""The prefix of a reason that lists the states of a job's components, if they ended differently."""


class JobState(Enum):
    """The state of a job in words common to all schedulers; the native word is kept, too.

    ``VANISHED``: the batch system no longer knows the job, and nothing shows how it ended.
    """

    UNSUBMITTED = "unsubmitted"
    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    VANISHED = "vanished"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether the job will not run any more."""
        return self not in _LIVING


_LIVING = frozenset(
    {JobState.UNSUBMITTED, JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN}
)


class Status(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of one job as its scheduler reports it.

    ``native`` is the scheduler's own word, untouched; ``exit_code`` is what a shell would show
    (128 + signal for a killed program), None while unknown; ``reason`` is free text.
    """

    state: JobState
    native: str = ""
    exit_code: int | None = None
    reason: str = ""
    source: str = ""


def reused_id(source: str) -> Status:
    """Return the status of a job whose id now belongs to a job with another token."""
    return Status(JobState.UNKNOWN, reason="its id now belongs to another job", source=source)


class Job(NamedTuple):
    """A submitted script; ``id`` is the scheduler's, ``directory`` the run directory.

    ``number``: which job of its run it is, from 1. ``trials``: the numbers of the trials that the elements of
    its array run, in their order, as in `hpcdist.runs.elements`; empty where an element is its own number.
    """

    id: str
    name: str
    directory: str
    token: str
    number: int = 1
    trials: str = ""


def element_id(job_id: str, index: int) -> str:
    """Return the key of one element of an array in a query's answer: ``123_4``."""
    return f"{job_id}_{index}"


def split_id(key: str) -> tuple[str, str]:
    """Return the job id of such a key, and the index as text; empty for a whole job."""
    job_id, _, index = key.rpartition("_")
    return (job_id, index) if job_id and index.isdecimal() else (key, "")


_LIVING_FIRST: Final = (
    JobState.RUNNING,
    JobState.SUSPENDED,
    JobState.PENDING,
    JobState.UNSUBMITTED,
    JobState.UNKNOWN,
)
_ENDED_LAST: Final = (JobState.VANISHED, JobState.CANCELLED, JobState.COMPLETED)


def fold(parts: Sequence[Status]) -> Status:
    """Return the state of a job with these parts, in their order: the one rule for all schedulers.

    It is alive while a part is, ends like the first part that failed (in any way), and is completed only
    when all parts are.
    """
    return min(parts, key=lambda part: _rank(part.state))


def _rank(state: JobState) -> int:
    if state in _LIVING_FIRST:
        return _LIVING_FIRST.index(state)
    failed = len(_LIVING_FIRST)
    return failed + 1 + _ENDED_LAST.index(state) if state in _ENDED_LAST else failed


class Rest(NamedTuple):
    """Elements of an array with the same status: the lowest index, their number, the status."""

    first: int
    number: int
    status: Status


def fold_array(elements: Mapping[int, Status], rest: Rest | None = None) -> Status:
    """Return the state of an array with these elements and the rest, folded in the order of their indices.

    If not all completed, the reason names the element that decided; an array with cancelled elements has
    no exit code: a completed element's code would mean success.
    """
    listed = {**elements, rest.first: rest.status} if rest else elements
    order = sorted(listed)
    folded = fold([listed[index] for index in order])
    size = len(elements) + (rest.number if rest else 0)
    if size == 1 or folded.state is JobState.COMPLETED or not folded.state.is_final:
        return folded
    first = next(index for index in order if listed[index] is folded)
    completed = sum(part.state is JobState.COMPLETED for part in elements.values())
    completed += rest.number if rest and rest.status.state is JobState.COMPLETED else 0
    why = f" ({folded.reason})" if folded.reason else ""
    reason = f"first in element {first}{why}; {completed} of {size} elements completed"
    return replace(folded, reason=reason, exit_code=folded.exit_code or None)


# --- The starts of a job: times, hosts, end, and the measured use

_SPAN: Final = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,2}(?:\.[0-9]{1,9})?)")
_SECONDS: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *(?:s|second\(s\))?")
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([KMGTPE]?)(?:i?b|bytes)?", re.IGNORECASE)

Moment = Annotated[float, Meta(ge=0, lt=LATEST)]
Seconds = Annotated[float, Meta(ge=0, lt=1 << 53)]
Bytes = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
Host = Annotated[str, Meta(pattern=rf"\A{NODE.pattern}\Z")]


class Usage(Struct, frozen=True, forbid_unknown_fields=True):
    """One start of a job, or of an element of an array; times are in seconds since 1970, None is unknown."""

    element: Count | None = None
    """The index in the array."""
    state: JobState = JobState.UNKNOWN
    queued: Moment | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: Count | None = None
    hosts: tuple[Host, ...] = ()
    max_memory: Bytes | None = None
    """The memory of the whole job if the batch system adds it up, else of its largest process."""
    total_memory: Bytes | None = None
    """The most that all processes together can have used."""
    cpu_seconds: Seconds | None = None
    """The CPU time of its processes, user and system."""
    cpus: Count | None = None
    """The CPUs that are charged: more than requested if the job has whole nodes."""
    gpus: Count | None = None
    """The GPUs that are charged."""
    elapsed: Moment | None = None
    """Run time without suspensions, if the batch system counts it; 0 for a job that never started."""
    gpu_seconds: Seconds | None = None
    """``gpus`` times ``elapsed``, added up over components that ran for different times; else None."""
    cpu_seconds_had: Seconds | None = None
    """``cpus`` times ``elapsed``, likewise."""


def size(text: str) -> int | None:
    """Return the bytes of ``14568K``, ``187336kb`` or ``1.5 Gbytes``; None for 0, which was not measured."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return None
    return int(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " ")) or None


def seconds(text: str) -> float | None:
    """Return the seconds of ``1-02:03:04``, ``02:03.5`` or ``0.3 second(s)``; None for 0, as in `size`."""
    if match := _SPAN.fullmatch(text.strip()):
        days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
        return ((days * 24 + hours) * 60 + minutes) * 60 + float(match[4]) or None
    found = _SECONDS.fullmatch(text.strip())
    return float(found[1]) or None if found else None


def count(text: str) -> int | None:
    """Return a number of CPUs or GPUs; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004 - digits


def times(number: int | None, elapsed: float | None) -> float | None:
    """Return the product, such as GPU-seconds; None if one is unknown."""
    return None if number is None or elapsed is None else number * elapsed


def moment(text: str) -> float | None:
    """Return the time of ``Sat Nov 21 08:17:13 2026``, as PBS and Grid Engine write it; else None."""
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").timestamp()  # noqa: DTZ007 - local, as written
    except (ValueError, OverflowError):
        return None

"""Why a job failed: what its supervisor printed last; its first failure, and what the nodes showed then.

In the job, ``templates/runtime/supervisor/causes.py`` finds the first failure in the launcher's messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base import ownership
from hpcdist.runs import attempt_files
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.events import FIRST_TO_FAIL
from hpcdist.runs.rundir import RunDirectory

# --- The last message of the job, in its log

_LINES: Final = 100
"""Lines at the end of a log that are searched for the message."""

_MESSAGE: Final = re.compile(r"hpcdist: (.{1,1000})")
_HEADLINE: Final = re.compile(r" \(job \S+\)$")


def failure_reason(directory: RunDirectory, element: str = "") -> str:
    """Return the last message of the job, why it failed (`rank 3 on n1 was the first to fail, ...`).

    Empty if there is none; the headline of a job, which ends with its id, does not count. ``element``: only
    of this one.
    """
    from hpcdist.runs import logs  # with what follows a job

    for file in logs.files(directory, element):
        with suppress(OSError):
            found = [match[1] for line in logs.tail(file, _LINES) if (match := _MESSAGE.fullmatch(line))]
            if found and not _HEADLINE.search(found[-1]):
                return found[-1]
    return ""


# --- What the nodes of an attempt showed when tasks on them failed: ``jobs/ID/faults/START.TRY.NODE``
#
# A line is ``# HOST``; ``end TIME CODE RANK LOCAL_RANK`` for each task that failed by itself; ``kernel
# TEXT``, since its first task began; ``counter NAME BEFORE AFTER``; ``gpu NUMBER TEXT``; ``tool
# TEXT``. Other and truncated lines are left out.

_MAX_BYTES: Final = 1 << 16
_MOST_FILES: Final = 10_000
_HOST: Final = re.compile(r"# ([A-Za-z0-9._-]{1,255})")
_END: Final = re.compile(
    r"end ([0-9]{1,12}(?:\.[0-9]{1,9})?) ([0-9]{1,3}) ([0-9]{1,9}) ([0-9]{1,9})", re.ASCII
)
_COUNTER: Final = re.compile(r"counter ([\w./-]{1,100}) ([0-9]{1,19}) ([0-9]{1,19})", re.ASCII)
_TEXT: Final = re.compile(r"(kernel|gpu|tool) (.{1,400})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

_XID: Final = re.compile(r"NVRM: Xid[^:]*\([^)]*\): ([0-9]{1,4})")
_HARDWARE_XIDS: Final = frozenset(
    (46, 48, 54, 56, 57, 58, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 122, 123, 136, 140, 143, 149, 154)
)
"""The Xid errors of NVIDIA's catalogue that are faults of the GPU, its memory or links; 13, 31, 43 and 45 are
mostly caused by programs."""

_HARDWARE: Final = re.compile(
    r"fallen off the bus|is lost|Unable to determine the device handle|No devices were found"
    r"|uncorrect|EDAC .*\bUE\b|health (?:compromised|poll failed)|[Ll]ink (?:is )?[Dd]own|link DOWN|link_down"
    r"|amdgpu.*GPU reset|wait to be retired"
)
_MEMORY: Final = re.compile(r"[Oo]ut of memory")
_COUNTS: Final = {
    "link_downed": ("the link {} went down", True),
    "link_error_recovery": ("the link {} recovered from errors", False),
    "symbol_error": ("symbol errors on the link {}", False),
    "ue_count": ("uncorrectable memory errors of {}", True),
    "ce_count": ("corrected memory errors of {}", False),
}


class TaskEnd(NamedTuple):
    """The end of a task that failed by itself; ``at`` is in seconds since 1970 by the clock of its node."""

    at: float
    code: int
    rank: int
    local_rank: int
    host: str


class Sign(NamedTuple):
    """Something that a node showed; ``of_hardware``: the node, a device or a link is broken."""

    text: str
    of_hardware: bool = False


class NodeFaults(NamedTuple):
    """What a node showed: its own name for itself, the ends of its tasks by time, the signs."""

    host: str
    ends: tuple[TaskEnd, ...]
    signs: tuple[Sign, ...] = ()

    @property
    def of_hardware(self) -> tuple[str, ...]:
        """The signs that the node is broken."""
        return tuple(sign.text for sign in self.signs if sign.of_hardware)


def read_faults(directory: RunDirectory, attempt: Numbered) -> tuple[NodeFaults, ...]:
    """Return what the nodes of an attempt showed, by the time of the first failure on each."""
    folder = directory.path / "jobs" / attempt.job / "faults"
    name = re.compile(rf"{re.escape(attempt.name)}\.[0-9]{{1,9}}")
    files: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        files = [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    found: list[NodeFaults] = []
    for file in sorted(files)[:_MOST_FILES]:
        with suppress(OSError):
            text = ownership.read(file, _MAX_BYTES).decode("utf-8", "replace")
            found += [node] if (node := faults_in(text)) else []
    return tuple(sorted(found, key=lambda node: node.ends[0].at))


def faults_in(text: str) -> NodeFaults | None:
    """Return the content of a file; None without the end of a task."""
    lines = text.split("\n")[:-1]
    host = next((match[1] for line in lines if (match := _HOST.fullmatch(line))), "")
    ends = sorted(
        TaskEnd(float(end[1]), int(end[2]), int(end[3]), int(end[4]), host)
        for end in map(_END.fullmatch, lines)
        if end
    )
    return NodeFaults(host, (*ends,), (*dict.fromkeys(_signs(lines)),)) if ends else None


def _signs(lines: Sequence[str]) -> Iterator[Sign]:
    for line in lines:
        if counter := _COUNTER.fullmatch(line):
            yield from _of_counter(counter[1], int(counter[3]) - int(counter[2]))
        elif text := _TEXT.fullmatch(line):
            yield _READERS[text[1]](_CONTROL.sub(" ", text[2]).strip())


def _of_counter(name: str, more: int) -> Iterator[Sign]:
    place, _, count = name.rpartition("/")
    if more > 0 and count in _COUNTS:
        text, of_hardware = _COUNTS[count]
        times = "once" if more == 1 else f"{more} times"
        yield Sign(f"{text.format(place)}: {times}", of_hardware)


def _of_kernel(text: str) -> Sign:
    message = text.partition("] ")[2] or text
    xid = _XID.search(message)
    of_hardware = int(xid[1]) in _HARDWARE_XIDS if xid else bool(_HARDWARE.search(message))
    return Sign(f"kernel: {message}", of_hardware and not _MEMORY.search(message))


_READERS: Final[dict[str, Callable[[str], Sign]]] = {
    "kernel": _of_kernel,
    "gpu": lambda text: Sign(f"GPU {text}", bool(_HARDWARE.search(text))),
    "tool": lambda text: Sign(text, bool(_HARDWARE.search(text))),
}


# --- Which task of an attempt failed first, how long before the next, and what the nodes showed then

_FIRST: Final = re.compile(r"([0-9]{1,3}) ([0-9]{1,9}|\?) ([A-Za-z0-9._-]{1,255})(?: (.*))?")
_SIGNS: Final = 3


class Failure(NamedTuple):
    """The first task of an attempt to fail.

    The file system of the run directory decides which task is first: the first one writes its name there.
    Times are by the clocks of the nodes.
    """

    job: str
    """The job, or the element of an array."""
    attempt: int
    """The number of the attempt."""
    rank: int | None
    """Its rank; None if that is not known."""
    host: str
    """The host on which it ran."""
    code: int
    """Its exit code."""
    why: str = ""
    """The cause, if its wrapper knows it; usually empty."""
    at: float | None = None
    """When it failed, by the clock of its node."""
    others: tuple[TaskEnd, ...] = ()
    """The tasks that failed by themselves after it."""
    nodes: tuple[NodeFaults, ...] = ()
    """The nodes that showed anything."""

    @property
    def text(self) -> str:
        """A sentence with the evidence."""
        rank = "a task" if self.rank is None else f"rank {self.rank}"
        text = FIRST_TO_FAIL % (f"{rank} on {self.host}", self.code) + self._next()
        if self.why:
            text += f": {self.why}"
        signs = [_shown(node) for node in self.nodes if node.signs][:_SIGNS]
        return "; ".join([text, *signs])

    def _next(self) -> str:
        if not self.others or self.at is None:
            return ""
        after, count = self.others[0], len(self.others)
        seconds = after.at - self.at
        if seconds < 0:
            clock = f"by whose clock it was {-seconds:.3g} s earlier"
            return f", and rank {after.rank} on {after.host} next, {clock}"
        more = f" and {count - 1} others" if count > 1 else ""
        return f", {seconds:.3g} s before rank {after.rank} on {after.host}{more}"


def of_attempt(directory: RunDirectory, attempt: Numbered) -> Failure | None:
    """Return the first failure of an attempt; None if no task has failed by itself."""
    nodes = read_faults(directory, attempt)
    ends = sorted(end for node in nodes for end in node.ends)
    with suppress(OSError):
        name = f"jobs/{attempt.job}/failure.{attempt.name}"
        text = directory.read(name, _MAX_BYTES).decode("utf-8", "replace")
        if line := _FIRST.fullmatch(text.strip()):
            rank = int(line[2]) if line[2] != "?" else None
            own = next((end for end in ends if end.rank == rank), None)
            others = tuple(end for end in ends if end is not own)
            found = Failure(attempt.job, attempt.number, rank, line[3], int(line[1]), line[4] or "")
            return found._replace(at=own and own.at, others=others, nodes=nodes)
    if not ends:
        return None
    first, *rest = ends
    found = Failure(attempt.job, attempt.number, first.rank, first.host, first.code)
    return found._replace(at=first.at, others=(*rest,), nodes=nodes)


def _shown(node: NodeFaults) -> str:
    more = f" and {len(node.signs) - _SIGNS} more" if len(node.signs) > _SIGNS else ""
    return f"{node.host}: {', '.join(sign.text for sign in node.signs[:_SIGNS])}{more}"


_MOST_ATTEMPTS: Final = 20
"""The most attempts that are searched for a failure."""

_ENDED_BY_SIGNAL: Final = frozenset({"timeout", "preempt", "terminated"})
"""Reasons why an attempt ended without a failed task."""


def first_failure(directory: RunDirectory, attempts: Sequence[Numbered]) -> Failure | None:
    """Return the first failure of the last attempt that has one; they are in the order of their starts."""
    last = attempts[: -_MOST_ATTEMPTS - 1 : -1]
    ended = (one for one in last if attempt_files.why(directory, one) not in _ENDED_BY_SIGNAL)
    return next(filter(None, (of_attempt(directory, attempt) for attempt in ended)), None)

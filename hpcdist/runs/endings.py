"""How jobs ended by what they, and hpcdist itself, left in the event log of their run directory."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from hpcdist.runs.kept_plan import KeptPlan
from hpcdist.runs.rundir import Event, RunDirectory
from hpcdist.schedulers.job import SIGNALLED, TERMINATED, Job, JobState, Status

_CANCELLED: Final = "cancelled"
_ENDS: Final = frozenset({"ended", _CANCELLED, "timeout"})
_SOURCE: Final = "run directory"
_NODE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MOST_ELEMENTS: Final = 1 << 20
"""Of larger arrays the rest is not looked at; no batch system takes so many."""

_NODES_BYTES: Final = 1 << 22


def note_cancelled(job: Job, at: float) -> None:
    """Write to the job's event log that its user cancelled it: a batch system may forget why it ended.

    Where the log cannot be written, nothing is: the job is cancelled all the same.
    """
    number, directory = job.id.partition(";")[0], RunDirectory(Path(job.directory))
    if any((event.what, event.job_id) == (_CANCELLED, number) for event in directory.events()):
        return
    with contextlib.suppress(OSError):
        directory.append_event(Event(_CANCELLED, number, round(at), "0"))


def elements(job: Job) -> tuple[int, ...]:
    """Return the indices of an array's elements, as its plan has them; of other jobs nothing."""
    return tuple(itertools.islice(itertools.chain.from_iterable(_ranges(job)), _MOST_ELEMENTS))


def _ranges(job: Job) -> Sequence[range]:
    array = RunDirectory(Path(job.directory)).plan().array
    return [part.indices for part in array.ranges] if array else ()


def has_written_its_end(job: Job) -> bool:
    """Return whether the job, or each element of the array, wrote last that it ends, or it was cancelled."""
    last = {event.job_id: event.what for event in RunDirectory(Path(job.directory)).events()}
    ended = sum(what in _ENDS for what in last.values())
    return _CANCELLED in last.values() or ended >= max(1, sum(map(len, _ranges(job))), len(last))


def has_begun(job: Job) -> bool:
    """Return whether the job, or an element of it, wrote that it began."""
    return any(event.what == "started" for event in RunDirectory(Path(job.directory)).events())


def nodes(job: Job) -> tuple[str, ...]:
    """Return the nodes that the job wrote down when it began."""
    number, directory = job.id.partition(";")[0], RunDirectory(Path(job.directory))
    with contextlib.suppress(OSError):
        text = directory.read(f"jobs/{number}/nodes", _NODES_BYTES).decode("utf-8", "replace")
        return tuple(name for name in text.split() if _NODE.fullmatch(name))
    return ()


def read(job: Job, indices: Collection[int] = ()) -> dict[int | None, Status]:
    """Return how the job ended by its own word, under None, or those elements of it that did.

    A job does not tell that it is ended to be queued again: for those that may be, 143 (TERM) says nothing,
    unless hpcdist's user cancelled it.
    """
    number, directory = job.id.partition(";")[0], RunDirectory(Path(job.directory))
    stories: dict[int | None, list[Event]] = {None: []}
    for event in directory.events():
        job_id, _, element = event.job_id.rpartition("_")
        if event.job_id == number:
            stories[None].append(event)
        elif job_id == number and element.isdecimal() and int(element) in indices:
            stories.setdefault(int(element), []).append(event)
    cancelled = max((event.at for event in stories[None] if event.what == _CANCELLED), default=None)
    if indices:
        del stories[None]
    for index in indices if cancelled is not None else ():
        stories.setdefault(index, [])
    plan = directory.plan() if any(stories.values()) else KeptPlan()
    ends = {index: _end(story, cancelled, plan) for index, story in stories.items()}
    return {index: status for index, status in ends.items() if status}


def _end(story: Sequence[Event], cancelled: int | None, plan: KeptPlan) -> Status | None:
    """Return how the last run of a job (or element) with these events ended; None for a living one."""
    began = max((place for place, event in enumerate(story) if event.what == "started"), default=0)
    events = {event.what: event for event in story[began:]}
    started, ended, timeout = (events.get(what) for what in ("started", "ended", "timeout"))
    code = int(ended.value) if ended and ended.value.isdecimal() else None
    if cancelled is not None and (ended is None or ended.at >= cancelled):
        return Status(JobState.CANCELLED, _CANCELLED, code, source=_SOURCE)
    if code is None:
        return Status(JobState.TIMEOUT, "timeout", source=_SOURCE) if timeout else None
    if timeout or (
        code > SIGNALLED and started and ended and _is_limit(ended.at - started.at, plan.walltime)
    ):
        return Status(JobState.TIMEOUT, "timeout" if timeout else "ended", code, source=_SOURCE)
    if code == TERMINATED and plan.requeue:
        return None
    return Status(JobState.FAILED if code else JobState.COMPLETED, "ended", code, source=_SOURCE)


def _is_limit(seconds: int, limit: int | None) -> bool:
    """Whether a job that ran so long was at its time limit; what ran before its script counts, too."""
    return limit is not None and seconds >= limit - min(60, limit // 20)

"""How jobs ended, read from the event logs of their runs, and what hpcdist adds to these logs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from hpcdist.base.command import Command
from hpcdist.runs.elements import Elements
from hpcdist.runs.event_states import CANCELLED, cancelled_at, end_of
from hpcdist.runs.rundir import Event, RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import NODE, Job, Status, element_id, split_id

RESUMED: Final = "resumed"
"""The event of a resumed run: its failures are counted from 0 again."""

LOST: Final = "lost"
"""The event of a node that was lost; `status` may find it after the end."""

_BESIDE: Final = frozenset({RESUMED, LOST})
_ENDS: Final = frozenset({"ended", CANCELLED, "timeout"})
_NODES_BYTES: Final = 1 << 22


def cancellation(job: Job, at: float, element: int | None = None) -> Event:
    """Return the event that the user cancelled the job, as a batch system may forget why a job ended.

    ``at``: before the batch system was asked to, or the end would seem to come first; scripts write whole
    seconds. ``element``: if it alone was cancelled.
    """
    number = _number(job)
    return Event(CANCELLED, number if element is None else element_id(number, element), int(at), "0")


def losses(job: Job, nodes: Iterable[str], at: float) -> list[tuple[Job, Event]]:
    """Return the job with each event of a node that it lost."""
    return [(job, Event(LOST, _number(job), int(at), node)) for node in nodes]


def record(found: Iterable[tuple[Job, Event]]) -> None:
    """Add these events to the event logs, a cancellation once; a log that cannot be written is ignored."""
    for job, new in found:
        there = ((event.what, event.job_id) for event in _directory(job).events())
        if new.what == LOST or (new.what, new.job_id) not in there:
            with contextlib.suppress(OSError):
                _directory(job).append_event(new)


def command_to_record(found: Iterable[tuple[Job, Event]]) -> Command:
    """Return `record` as a command for a remote."""
    script = 'while [ $# -gt 0 ]; do echo "$1" >>"$2/events"; shift 2; done'
    lines = ((" ".join(map(str, event)), str(_directory(job).path)) for job, event in found)
    return Command(("sh", "-c", script, "hpcdist", *itertools.chain.from_iterable(lines)))


def _number(job: Job) -> str:
    return job.id.partition(";")[0]


def _directory(job: Job) -> RunDirectory:
    return RunDirectory(Path(job.directory), job.number)


def elements(job: Job) -> Elements:
    """Return an array's elements, by the numbers of their trials or from its plan; none for other jobs."""
    return _directory(job).plan().elements(job.trials)


def has_ended(job: Job) -> bool:
    """Return whether the last event of the job, or of each array element, is its end, or it was cancelled."""
    last = {event.job_id: event.what for event in _own_events(job) if event.what not in _BESIDE}
    ended = sum(what in _ENDS for what in last.values())
    is_cancelled = last.get(_number(job)) == CANCELLED
    return is_cancelled or ended >= max(1, elements(job).size, len(last))


def has_started(job: Job) -> bool:
    """Return whether the job, or an element of it, has an event of its start."""
    return any(event.what == "started" for event in _own_events(job))


def _own_events(job: Job) -> Iterator[Event]:
    """Yield the events of the job and of its elements; its run may have other jobs."""
    number = _number(job)
    events = _directory(job).events()
    return (event for event in events if number in (event.job_id, split_id(event.job_id)[0]))


def nodes(job: Job) -> tuple[str, ...]:
    """Return the nodes that the job recorded at its start."""
    number, directory = _number(job), _directory(job)
    with contextlib.suppress(OSError):
        return read_nodes(directory, f"jobs/{number}/nodes")
    return ()


def read_nodes(directory: RunDirectory, name: str) -> tuple[str, ...]:
    """Return the nodes in a file that a job wrote at its start.

    Raises:
        OSError: if it cannot be read.
    """
    text = directory.read(name, _NODES_BYTES).decode("utf-8", "replace")
    return tuple(node for node in text.split() if NODE.fullmatch(node))


def read(job: Job, indices: Elements) -> tuple[dict[int | None, Status], Status | None]:
    """Return how the job ended by its event log, under None, or its ended elements by index.

    The second value is how all other elements ended, None where they may live.

    The log does not show whether a job was terminated to be requeued: for jobs that may be, exit code 143
    (TERM) is ignored, unless hpcdist's user cancelled the job.
    """
    number, directory = _number(job), _directory(job)
    by_index: dict[int | None, list[Event]] = {None: []}
    for event in directory.events():
        job_id, element = split_id(event.job_id)
        if event.job_id == number:
            by_index[None].append(event)
        elif job_id == number and element and int(element) in indices:
            by_index.setdefault(int(element), []).append(event)
    cancelled = cancelled_at(by_index[None])
    if indices:
        del by_index[None]
    plan = directory.plan() if any(by_index.values()) else StoredPlan()
    ends = {index: end_of(log, cancelled or cancelled_at(log), plan) for index, log in by_index.items()}
    found: dict[int | None, Status] = {index: status for index, status in ends.items() if status}
    others = end_of([], cancelled, plan) if indices else None
    if others and len(found) < len(ends):  # an element that may run again is excluded
        return dict.fromkeys(indices.outside(ends), others) | found, None
    return found, others

"""Packed trials: what their workers recorded of each of them, and the attempts that this comes to.

A log ``events.JOB@NODE`` has the events of the trials that a job, or element 2 of an array as ``124+2``, ran
on a node: two nodes never write to one file, which network file systems would garble. Trial 17 is
``124_17`` there, as it would be as an element of an array. ``returned`` is the end of a start that did not
end the trial: it is to run again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from hpcdist.runs import events, state
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.state import Attempt
from hpcdist.runs.stored_plan import StoredPlan

_PREFIX: Final = "events."


class Log(NamedTuple):
    """The event log of the trials that ``job`` ran on ``node``; an element of an array is ``124_2`` here."""

    job: str
    node: str
    events: tuple[Event, ...]


def logs(directory: RunDirectory) -> list[Log]:
    """Return the logs of a run's packed trials; none for other runs. What cannot be read is left out."""
    names: list[str] = []
    with suppress(OSError), directory.opened() as handle, os.scandir(handle) as entries:
        names = sorted(one.name for one in entries if one.name.startswith(_PREFIX) and "@" in one.name)
    found = []
    for name in names:
        job, _, node = name.removeprefix(_PREFIX).rpartition("@")
        with suppress(OSError):
            found.append(Log(events.plain_id(job), node, events.read(directory.read(name, events.MAX_BYTES))))
    return found


def of_programs(directory: RunDirectory) -> tuple[Event, ...]:
    """Return the events of what runs the program: packed trials, in the order of their times, else jobs."""
    found = [event for log in logs(directory) for event in log.events]
    return tuple(sorted(found, key=lambda event: event.at)) or directory.events()


def attempts(
    directory: RunDirectory, plan: StoredPlan, jobs: Sequence[Attempt], now: float
) -> tuple[Attempt, ...]:
    """Return the attempts of packed trials, in the order of their starts; ``jobs``: those of their jobs.

    One that was returned is ``requeued``; one whose job is over without its end has the state of the job,
    ``vanished`` where that alone would be no reason. GPU-seconds are those of its worker's share.
    """
    over = {attempt.job: attempt for attempt in jobs}  # the last one of each
    share = plan.gpus / plan.tasks if plan.gpus is not None and plan.tasks else None
    found = [
        attempt.with_gpus(share, now)
        for log in logs(directory)
        for attempt in _of_log(log, over.get(log.job))
    ]
    return tuple(sorted(found, key=lambda attempt: (attempt.started or 0.0, attempt.number)))


def _of_log(log: Log, job: Attempt | None) -> Iterator[Attempt]:
    for own in events.by_id(log.events).values():
        for start in events.starts(own):
            if start.is_known:
                yield from state.of_packed(start, log.node, job)

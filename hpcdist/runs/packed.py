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
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.runs import events
from hpcdist.runs.attempt import PRUNED
from hpcdist.runs.attempts import REQUEUED, Attempt
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState

_PREFIX: Final = "events."
RETURNED: Final = "returned"
_STATES: Final = {RETURNED: REQUEUED, "cancelled": JobState.CANCELLED.value, PRUNED: PRUNED}
"""The states of starts that ended in another way than their program."""

_ENDS: Final = frozenset({"ended", "restarted", *_STATES})


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
        _with_gpus(attempt, share, now)
        for log in logs(directory)
        for attempt in _of_log(log, over.get(log.job))
    ]
    return tuple(sorted(found, key=lambda attempt: (attempt.started or 0.0, attempt.number)))


def _of_log(log: Log, job: Attempt | None) -> Iterator[Attempt]:
    by_trial: dict[str, list[Event]] = {}
    for event in log.events:
        by_trial.setdefault(event.job_id, []).append(event)
    for trial, own in by_trial.items():
        places = [place for place, event in enumerate(own) if event.what == "started"]
        for first, end in pairwise([*places, len(own)]):
            yield from _of_start(log, trial, own[first:end], job)


def _of_start(log: Log, trial: str, own: Sequence[Event], job: Attempt | None) -> Iterator[Attempt]:
    """Yield the attempts of one start of a trial, whose first event this is."""
    number, began = int(own[0].value) if own[0].value.isdecimal() else 0, own[0].at
    ends = [event for event in own if event.what in _ENDS]
    for again, event in enumerate(ends):
        code = int(event.value) if event.value.isdecimal() else None
        state = JobState.FAILED if code or event.what == "restarted" else JobState.COMPLETED
        yield Attempt(
            trial, (number, again), _STATES.get(event.what, state.value), began, began,
            event.at, (log.node,), code,
        )  # fmt: skip
        began = event.at
    if not ends or ends[-1].what == "restarted":
        yield _unended(Attempt(trial, (number, len(ends)), "", began, began, None, (log.node,)), job)


def _unended(attempt: Attempt, job: Attempt | None) -> Attempt:
    """Return an attempt without an end as what its job shows of it."""
    state = next((state for state in JobState if job and state.value == job.state), JobState.UNKNOWN)
    if job is None or not state.is_final:
        return attempt._replace(state=state.value)
    if state in (JobState.COMPLETED, JobState.FAILED):
        state = JobState.VANISHED
    return attempt._replace(state=state.value, ended=job.ended)


def _with_gpus(attempt: Attempt, share: float | None, now: float) -> Attempt:
    end = now if attempt.state == JobState.RUNNING.value else attempt.ended
    if share is None or attempt.started is None or end is None:
        return attempt
    return attempt._replace(gpu_seconds=share * max(0.0, end - attempt.started))

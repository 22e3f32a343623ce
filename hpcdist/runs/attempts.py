"""The attempts of a run: each run of its program, with its times, hosts and end; what is unknown is None.

A job has several where the batch system starts it again, and where its script runs the program again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from hpcdist.runs import accounting, endings
from hpcdist.runs.rundir import Event, Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.accounting import Usage
from hpcdist.schedulers.job import JobState, Status, split_id

REQUEUED: Final = "requeued"
ENDED: Final = "ended"
_VAGUE: Final = frozenset(
    {REQUEUED, ENDED, *(state.value for state in (JobState.UNKNOWN, JobState.RUNNING, JobState.FAILED))}
)
"""States of which the accounting may know more."""
_COUNT: Final = re.compile(r"[0-9]{1,9}")


class Attempt(NamedTuple):
    """One run of the program of a job, or of an element of an array; times are in seconds since 1970.

    ``number``: how often the batch system had started the job before, and its script the program; what the
    program recorded is in ``tracking/JOB/N.M``. ``state``: a final state, ``running``, ``requeued`` where
    the batch system started the job again, ``ended`` where the exit code is unknown, or ``unknown``.
    ``queued`` is when it began to wait for its nodes; an attempt in an allocation that an earlier one had
    did not wait: it is when it started. ``gpu_seconds`` are those of the GPUs that the plan requests, up to
    now while it runs. ``max_memory`` in bytes is what the batch system measured of its start of the job.
    """

    job: str
    number: tuple[int, int]
    state: str
    queued: float | None = None
    started: float | None = None
    ended: float | None = None
    hosts: tuple[str, ...] | None = None
    exit_code: int | None = None
    gpu_seconds: float | None = None
    max_memory: int | None = None

    @property
    def name(self) -> str:
        """Its numbers as in the folder of its records: ``0.1``."""
        return ".".join(map(str, self.number))

    @property
    def waited(self) -> float | None:
        """Seconds in the queue; clocks of two hosts may differ, but no time is below zero."""
        if self.queued is None or self.started is None:
            return None
        return max(0.0, self.started - self.queued)

    @property
    def elapsed(self) -> float | None:
        """Seconds from start to end; None while it runs."""
        return None if self.started is None or self.ended is None else max(0.0, self.ended - self.started)


def read(
    run: Run, now: float, status: Status | None = None, usage: Sequence[Usage] | None = None
) -> tuple[Attempt, ...]:
    """Return the attempts of a run with all that is known of them, in the order of their starts.

    ``status`` and ``usage`` are what the batch system has of the job, if that was queried; else what is kept
    of its accounting is used. What the event log lacks is taken from there.
    """
    plan = run.directory.plan()
    found = [*_with_hosts(run, of_events(run, plan, run.directory.events(), now, status))]
    return with_accounting(run, plan, found, now, usage)


def with_accounting(
    run: Run, plan: StoredPlan, found: Sequence[Attempt], now: float, usage: Sequence[Usage] | None = None
) -> tuple[Attempt, ...]:
    """Return the attempts with what the accounting has of them, by default what is kept of it."""
    usage = (accounting.read(run.directory) or ()) if usage is None else usage
    known = (_with_gpus(each, plan, now) for each in _with_usage(run, found, usage))
    return tuple(sorted(known, key=_order))


def of_events(
    run: Run, plan: StoredPlan, events: Sequence[Event], now: float, status: Status | None = None
) -> tuple[Attempt, ...]:
    """Return the attempts that the event log shows, without their hosts; it reads no file.

    A submitted job that has not started has one attempt; what was not submitted has none.
    """
    status = run.record.ended or status
    logs: dict[str, list[Event]] = {}
    for event in events:
        logs.setdefault(event.job_id, []).append(event)
    found = [
        attempt
        for job, log in logs.items()
        for attempt in _Log(run, plan, job, _cancelled(job, logs), now, status).attempts(log)
    ]
    if found or run.job is None:
        return tuple(sorted(found, key=_order))
    waiting = Attempt(run.event_id, (0, 0), JobState.UNKNOWN.value, _submitted(run))
    return (waiting._replace(state=status.state.value, exit_code=status.exit_code) if status else waiting,)


def _order(attempt: Attempt) -> tuple[float, str, tuple[int, int]]:
    return attempt.started or 0.0, attempt.job, attempt.number


def _cancelled(job: str, logs: Mapping[str, Sequence[Event]]) -> int | None:
    """Return when a job was cancelled; all elements of an array are, by its id."""
    events = (*logs[job], *logs.get(split_id(job)[0], ()))
    return max((event.at for event in events if event.what == "cancelled"), default=None)


def _submitted(run: Run) -> float | None:
    at = run.record.submitted_at
    return datetime.fromisoformat(at).timestamp() if at else None


class _Log(NamedTuple):
    """What the event log of one job, or of an element of an array, is read with."""

    run: Run
    plan: StoredPlan
    job: str
    cancelled: int | None
    now: float
    status: Status | None

    def attempts(self, log: Sequence[Event]) -> Iterator[Attempt]:
        """Yield the attempts of these events."""
        places = [place for place, event in enumerate(log) if event.what == "started"]
        is_own = self.run.event_id in (self.job, split_id(self.job)[0])
        queued = _submitted(self.run) if is_own else None
        for count, (first, end) in enumerate(pairwise([*places, len(log)])):
            part = log[first:end]
            yield from self._start(part, count, queued, is_last=end == len(log))
            queued = next((float(event.at) for event in part if event.what == "ended"), None)

    def _start(
        self, log: Sequence[Event], count: int, queued: float | None, *, is_last: bool
    ) -> Iterator[Attempt]:
        """Yield the attempts of one start of the job, whose first event this is."""
        number = _count(log[0])
        began, number = float(log[0].at), count if number is None else number
        restarts = [event for event in log if event.what == "restarted"]
        for again, event in enumerate(restarts):
            failed = Attempt(self.job, (number, again), JobState.FAILED.value, queued, began, float(event.at))
            yield _with_gpus(failed._replace(exit_code=_count(event)), self.plan, self.now)
            began = queued = float(event.at)
        last = Attempt(self.job, (number, len(restarts)), REQUEUED, queued, began)
        ended = next((event for event in log if event.what == ENDED), None)
        if ended:
            last = last._replace(ended=float(ended.at), exit_code=_count(ended))
        yield _with_gpus(self._with_end(last, log) if is_last else last, self.plan, self.now)

    def _with_end(self, attempt: Attempt, log: Sequence[Event]) -> Attempt:
        """Add how the last attempt of a job ended, or that it runs."""
        status = self.status if self.job == self.run.event_id else None
        if status and status.state.is_final:
            code = status.exit_code if attempt.exit_code is None else attempt.exit_code
            return attempt._replace(state=status.state.value, exit_code=code)
        if status and status.state is JobState.PENDING:
            return attempt
        if ended := endings.end_of(log, self.cancelled, self.plan):
            return attempt._replace(state=ended.state.value)
        if attempt.ended is not None:
            may_live = attempt.exit_code is not None and self.plan.requeue
            return attempt._replace(state=JobState.UNKNOWN.value if may_live else ENDED)
        if status is None or status.state is JobState.UNKNOWN:
            state = JobState.UNKNOWN if self.run.record.ended else JobState.RUNNING
            return attempt._replace(state=state.value)
        return attempt._replace(state=status.state.value)


def _with_gpus(attempt: Attempt, plan: StoredPlan, now: float) -> Attempt:
    """Add the GPU-seconds, if its end is known or it runs."""
    end = now if attempt.state == JobState.RUNNING.value else attempt.ended
    if plan.gpus is None or attempt.started is None or end is None:
        return attempt
    return attempt._replace(gpu_seconds=plan.gpus * max(0.0, end - attempt.started))


def _with_usage(run: Run, found: Sequence[Attempt], usage: Sequence[Usage]) -> Iterator[Attempt]:
    """Yield the attempts, each with what the accounting has of its start of the job."""
    kept = accounting.by_job(run, usage)
    for job, starts in _starts(found).items():
        for group, later in zip_longest(starts, starts[1:]):
            next_start = later[0].started if later else math.inf
            end = next_start if group[-1].ended is None else group[-1].ended
            mine = [each for each in kept.get(job, ()) if each.started is not None or later is None]
            own = _matching(mine, group[0].started, end or math.inf) or Usage()
            for attempt in group:
                queued = own.queued if attempt is group[0] and own.queued is not None else attempt.queued
                known = attempt._replace(queued=queued, max_memory=own.max_memory)
                yield _filled(known, own) if attempt is group[-1] else known


def _starts(found: Iterable[Attempt]) -> dict[str, list[list[Attempt]]]:
    """Return the attempts of each job, those of one start together."""
    jobs: dict[str, dict[int, list[Attempt]]] = {}
    for attempt in found:
        jobs.setdefault(attempt.job, {}).setdefault(attempt.number[0], []).append(attempt)
    return {job: [*starts.values()] for job, starts in jobs.items()}


def _matching(usage: Sequence[Usage], began: float | None, end: float) -> Usage | None:
    """Return what the accounting has of a start: what it has most time in common with."""
    common = {
        min(end, math.inf if each.ended is None else each.ended) - max(began or 0.0, each.started): each
        for each in usage
        if each.started is not None
    }
    if not common:
        return next(iter(usage), None)
    return common[max(common)] if max(common) >= 0 else None


def _filled(attempt: Attempt, usage: Usage) -> Attempt:
    """Return the last attempt of a start with what only the accounting has of it."""
    is_better = usage.state.is_final and attempt.state in _VAGUE
    return attempt._replace(
        state=usage.state.value if is_better else attempt.state,
        started=usage.started if attempt.started is None else attempt.started,
        ended=usage.ended if attempt.ended is None else attempt.ended,
        exit_code=usage.exit_code if attempt.exit_code is None else attempt.exit_code,
        hosts=attempt.hosts or usage.hosts or None,
        gpu_seconds=None,
    )


def _count(event: Event) -> int | None:
    return int(event.value) if _COUNT.fullmatch(event.value) else None


def _with_hosts(run: Run, found: Iterable[Attempt]) -> Iterator[Attempt]:
    """Yield the attempts with the nodes that the script recorded; earlier versions did at the last start."""
    for starts in _starts(found).values():
        for group in starts:
            names = (f"nodes.{group[0].number[0]}", *(("nodes",) if group is starts[-1] else ()))
            files = (f"jobs/{group[0].job}/{name}" for name in names)
            hosts = next(filter(None, (_nodes(run, file) for file in files)), None)
            yield from (attempt._replace(hosts=hosts) for attempt in group)


def _nodes(run: Run, file: str) -> tuple[str, ...] | None:
    with suppress(OSError):
        return endings.read_nodes(run.directory, file)
    return None

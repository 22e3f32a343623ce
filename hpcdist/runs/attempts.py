"""The attempts of a run: each run of its program, with its times, hosts and end; what is unknown is None.

A job has several where the batch system starts it again, and where its script runs the program again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat, zip_longest
from typing import TYPE_CHECKING, Final

from hpcdist.runs import accounting, endings
from hpcdist.runs.event_states import ENDED, REQUEUED, Attempt, Log, submitted
from hpcdist.runs.events import Event, by_id
from hpcdist.runs.rundir import Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState, Status, Usage, split_id

if TYPE_CHECKING:
    from hpcdist.runs.job_states import Report

UsageOf = Callable[[Run], Sequence[Usage]]

_VAGUE: Final = frozenset(
    {REQUEUED, ENDED, *(state.value for state in (JobState.UNKNOWN, JobState.RUNNING, JobState.FAILED))}
)
"""States that the accounting may refine."""


def read(
    report: Report,
    now: float,
    usage: UsageOf | None = None,
    *,
    hosts: bool = True,
    events: Sequence[Event] | None = None,
) -> tuple[Attempt, ...]:
    """Return the attempts of a run with all that is known of them, sorted by start.

    ``usage`` queries the accounting of each job; without it, stored accounting is used. It supplies what the
    event log lacks. ``hosts``: also read hosts, from a file for each attempt. ``events``: the event log, if
    it was read.
    """
    events = report.run.directory.events() if events is None else events
    plans = (run.directory.plan() for run in report.run.jobs)
    logs, ends = report.run.by_job(events), (job.status for job in report.jobs)
    return _of_jobs(report.run, zip(report.run.jobs, plans, logs, ends, strict=True), now, usage, hosts=hosts)


def all_attempts(
    report: Report,
    now: float,
    usage: UsageOf | None = None,
    *,
    hosts: bool = False,
    events: Sequence[Event] | None = None,
) -> tuple[Attempt, ...]:
    """As `read`, but for packed trials return the attempts of each trial."""
    directory, jobs = report.run.directory, read(report, now, usage, hosts=hosts, events=events)
    if not (plan := directory.plan()).workers:
        return jobs
    from hpcdist.runs import attempt_files  # few runs have packed trials

    return attempt_files.trial_attempts(directory, plan, jobs, now)


def kept(run: Run, plan: StoredPlan, events: Sequence[Event], now: float) -> tuple[Attempt, ...]:
    """Return the attempts as `read` does, without hosts, from the files of the run alone.

    ``plan``: the plan of its first job.
    """
    plans = chain([plan], (job.directory.plan() for job in run.later))
    return _of_jobs(run, zip(run.jobs, plans, run.by_job(events), repeat(None)), now, None, hosts=False)


def _of_jobs(
    whole: Run,
    jobs: Iterable[tuple[Run, StoredPlan, Sequence[Event], Status | None]],
    now: float,
    usage: UsageOf | None,
    *,
    hosts: bool,
) -> tuple[Attempt, ...]:
    """Return the attempts of jobs, each with its plan, its part of the event log and its status."""
    found: list[Attempt] = []
    for run, plan, log, status in jobs:
        own: Iterable[Attempt] = _of_job(run, log, plan, now, status)
        own = [*_with_hosts(run, plan, own)] if hosts else [*own]
        measured = usage(run) if usage else accounting.read(run.directory) or ()
        found += _with_usage(run, plan, own, now, measured)
    if whole.is_followed:  # a follower that has not started: no attempt
        found = [attempt for attempt in found if attempt.started is not None] or found[:1]
    return tuple(sorted(found, key=_order))


def of_events(
    run: Run, plan: StoredPlan, events: Sequence[Event], now: float, status: Status | None = None
) -> tuple[Attempt, ...]:
    """Return the attempts that the event log shows, without their hosts; it reads no file.

    A submitted job that has not started has one attempt; what was not submitted has none.
    """
    logs = zip(run.jobs, run.by_job(events), strict=True)
    return tuple(sorted(chain.from_iterable(_of_job(*each, plan, now, status) for each in logs), key=_order))


def _of_job(
    run: Run, events: Sequence[Event], plan: StoredPlan, now: float, status: Status | None
) -> tuple[Attempt, ...]:
    """Return the attempts of one job, from its events."""
    status = run.record.ended or status
    shared = (run, plan, submitted(run), status)
    cancelled = dict(sorted((event.job_id, event.at) for event in events if event.what == "cancelled"))
    found = [
        attempt
        for job, log in by_id(events).items()
        for attempt in Log(job, log, _cancelled(job, cancelled), *shared).attempts(now)
    ]
    if found or run.job is None:
        return tuple(sorted(found, key=_order))
    waiting = Attempt(run.event_id, (0, 0), JobState.UNKNOWN.value, submitted(run))
    return (waiting._replace(state=status.state.value, exit_code=status.exit_code) if status else waiting,)


def gpu_hours(run: Run, plan: StoredPlan, events: Sequence[Event], now: float) -> float | None:
    """Return the GPU-hours of all attempts together, of a running one up to now.

    None where they are unknown: an attempt has no start or no end, and no stored accounting.
    """
    found = of_events(run, plan, events, now)
    if run.record.ended and any(attempt.gpu_seconds is None for attempt in found):
        found = kept(run, plan, events, now)
    seconds = [attempt.gpu_seconds for attempt in found]
    known = [each for each in seconds if each is not None]
    if plan.gpus_had is None or len(known) < len(seconds):
        return None
    return sum(known) / 3600


def _order(attempt: Attempt) -> tuple[float, str, tuple[int, int]]:
    return attempt.started or 0.0, attempt.job, attempt.number


def _cancelled(job: str, cancelled: Mapping[str, int]) -> int | None:
    """Return when it was cancelled; an array's elements also by the array's id."""
    if not cancelled:
        return None
    return max((cancelled[each] for each in (job, split_id(job)[0]) if each in cancelled), default=None)


def _with_usage(
    run: Run, plan: StoredPlan, found: Sequence[Attempt], now: float, usage: Sequence[Usage]
) -> Iterator[Attempt]:
    """Yield the attempts, each with the accounting record of its start of the job."""
    if not usage:
        yield from found
        return
    by_job = accounting.by_job(run, usage)
    for job, starts in _starts(found).items():
        rows = by_job.get(job, ())
        begun = sorted((row for row in rows if row.started is not None), key=lambda row: row.started or 0)
        each_has_one = len(begun) == len(starts)
        for place, (group, later) in enumerate(zip_longest(starts, starts[1:])):
            next_start = later[0].started if later else math.inf
            end = next_start if group[-1].ended is None else group[-1].ended
            mine = begun[place : place + 1] if each_has_one else begun if later else rows
            measured = _matching(mine, group[0].started, end or math.inf)
            own = measured or Usage()
            for attempt in group:
                queued = own.queued if attempt is group[0] and own.queued is not None else attempt.queued
                known = attempt._replace(queued=queued, max_memory=own.max_memory, usage=measured)
                is_last = attempt is group[-1]
                yield _filled(known, own).with_gpus(plan.gpus_had, now) if is_last else known


def _starts(found: Iterable[Attempt]) -> dict[str, list[list[Attempt]]]:
    """Return each job's attempts, grouped by the job's starts."""
    jobs: dict[str, dict[int, list[Attempt]]] = {}
    for attempt in found:
        jobs.setdefault(attempt.job, {}).setdefault(attempt.number[0], []).append(attempt)
    return {job: [*starts.values()] for job, starts in jobs.items()}


def _matching(usage: Sequence[Usage], began: float | None, end: float) -> Usage | None:
    """Return the accounting record that overlaps most with a start of the job."""
    common = {
        min(end, math.inf if each.ended is None else each.ended) - max(began or 0.0, each.started): each
        for each in usage
        if each.started is not None
    }
    if not common:
        return next(iter(usage), None)
    return common[max(common)] if max(common) >= 0 else None


def _filled(attempt: Attempt, usage: Usage) -> Attempt:
    """Return the last attempt of a start, completed from the accounting."""
    is_better = usage.state.is_final and attempt.state in _VAGUE
    return attempt._replace(
        state=usage.state.value if is_better else attempt.state,
        started=usage.started if attempt.started is None else attempt.started,
        ended=usage.ended if attempt.ended is None else attempt.ended,
        exit_code=usage.exit_code if attempt.exit_code is None else attempt.exit_code,
        hosts=attempt.hosts or usage.hosts or None,
        gpu_seconds=None,
    )


def _with_hosts(run: Run, plan: StoredPlan, found: Iterable[Attempt]) -> Iterator[Attempt]:
    """Yield attempts with the nodes that the script recorded; earlier versions kept the last start's."""
    for starts in _starts(found).values():
        for group in starts:
            folder = f"jobs/{folder_of(plan, group[0].job)}"
            names = (f"nodes.{group[0].number[0]}", *(("nodes",) if group is starts[-1] else ()))
            hosts = next(filter(None, (_nodes(run, f"{folder}/{name}") for name in names)), None)
            for attempt in group:  # one that replaces a lost node has other nodes
                if attempt.number[1]:
                    hosts = _nodes(run, f"{folder}/nodes.{attempt.name}") or hosts
                yield attempt._replace(hosts=hosts)


def folder_of(plan: StoredPlan, job: str) -> str:
    """Return the name of the folder in ``jobs`` of a job or array element."""
    mark = "+" if plan.workers else "_"  # trials have _
    return mark.join(filter(None, split_id(job)))


def _nodes(run: Run, file: str) -> tuple[str, ...] | None:
    with suppress(OSError):
        return endings.read_nodes(run.directory, file)
    return None

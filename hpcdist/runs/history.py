"""What the event log shows of a run without its batch system: whether it runs, and its GPU-hours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from hpcdist.runs import endings
from hpcdist.runs.attempt import REQUEUED
from hpcdist.runs.rundir import Event, Phase, Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import TERMINATED, JobState, Status, fold, split_id

RUNNING: Final = JobState.RUNNING.value
ENDED: Final = "ended"
UNKNOWN: Final = JobState.UNKNOWN.value
_LIVE: Final = frozenset({"started", "finishing"})
_MARKS: Final = _LIVE | {"timeout", "ended", REQUEUED}
"""The events of which the last one shows whether a job runs; one that its limit ended may write no other."""

STATES: Final = (
    *(JobState.UNSUBMITTED.value, RUNNING, ENDED, UNKNOWN),
    *(state.value for state in JobState if state.is_final),
)
"""The states that `state` returns."""


def state(run: Run, events: Sequence[Event]) -> str:
    """Return the final state in the record, else what the events show: ``running`` or ``ended``.

    A job that wrote its start and no end is ``running``, though a lost node writes none either; one that
    wrote nothing is ``unknown``, as it may be pending. So is one that may have been requeued or cancelled,
    or that has put itself into the queue again.
    Of several jobs it is that of the first which decides, as in `states`.
    """
    if not run.later:
        return _state(run, events)
    if (last := run.last_attempt(events)) is not None:
        return _state(run.jobs[last], run.by_job(events)[last])
    logs = enumerate(zip(run.jobs, run.by_job(events), strict=True))
    counted = [own for place, own in logs if place >= run.continued or not own[0].record.ended]
    found = sorted((_state(*own) for own in counted), key=ENDED.__ne__)
    states = (JobState.COMPLETED if each == ENDED else JobState(each) for each in found)
    return fold([Status(state, each) for state, each in zip(states, found, strict=True)]).native


def _state(run: Run, events: Sequence[Event]) -> str:
    if run.record.ended:
        return run.record.ended.state.value
    if run.record.phase in (Phase.CREATED, Phase.REFUSED):
        return JobState.UNSUBMITTED.value
    last = {event.job_id: event for event in events if event.what in _MARKS}
    cancelled = any(event.what == "cancelled" for event in events)
    if any(event.what == REQUEUED for event in last.values()):
        return UNKNOWN
    if any(event.what in _LIVE for event in last.values()):
        return UNKNOWN if cancelled else RUNNING
    return ENDED if last and run.job and not _may_live(run, last.values()) else UNKNOWN


def _may_live(run: Run, ends: Collection[Event]) -> bool:
    """Whether other elements may live, or the job may have been requeued; the plan is read only for these."""
    is_array = any(split_id(event.job_id)[1] for event in ends)
    if is_array and run.job and not endings.has_ended(run.job):
        return True
    return any(event.value == str(TERMINATED) for event in ends) and run.directory.plan().requeue


def gpu_hours(run: Run, plan: StoredPlan, events: Sequence[Event], now: float) -> float | None:
    """Return the GPUs that the job has times the hours of each attempt, of a running one up to now.

    None where it is unknown: an attempt without an end, or no start, of which no accounting is kept.
    """
    from hpcdist.runs import attempts  # `list` alone has no use for it

    found = attempts.of_events(run, plan, events, now)
    if run.record.ended and any(attempt.gpu_seconds is None for attempt in found):
        found = attempts.kept(run, plan, events, now)
    seconds = [attempt.gpu_seconds for attempt in found]
    known = [each for each in seconds if each is not None]
    if plan.gpus_had is None or len(known) < len(seconds):
        return None
    return sum(known) / 3600

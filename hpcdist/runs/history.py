"""What the event log shows of a run without its batch system: whether it runs, and its GPU-hours."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from hpcdist.runs import endings
from hpcdist.runs.rundir import Event, Phase, Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import TERMINATED, JobState

RUNNING: Final = JobState.RUNNING.value
ENDED: Final = "ended"
UNKNOWN: Final = JobState.UNKNOWN.value
STATES: Final = (
    *(JobState.UNSUBMITTED.value, RUNNING, ENDED, UNKNOWN),
    *(state.value for state in JobState if state.is_final),
)
"""The states that `state` returns."""

_ELEMENT: Final = re.compile(r".*_[0-9]+")


def state(run: Run, events: Sequence[Event]) -> str:
    """Return the final state in the record, else what the events show: ``running`` or ``ended``.

    A job that wrote its start and no end is ``running``, though a lost node writes none either; one that
    wrote nothing is ``unknown``, as it may be pending. So is one that may have been requeued or cancelled.
    """
    if run.record.ended:
        return run.record.ended.state.value
    if run.record.phase in (Phase.CREATED, Phase.REFUSED):
        return JobState.UNSUBMITTED.value
    last = {event.job_id: event for event in events if event.what in ("started", "ended")}
    cancelled = any(event.what == "cancelled" for event in events)
    if any(event.what == "started" for event in last.values()):
        return UNKNOWN if cancelled else RUNNING
    return ENDED if last and run.job and not _may_live(run, last.values()) else UNKNOWN


def _may_live(run: Run, ends: Collection[Event]) -> bool:
    """Whether other elements may live, or the job may have been requeued; the plan is read only for these."""
    is_array = any(_ELEMENT.fullmatch(event.job_id) for event in ends)
    if is_array and run.job and not endings.has_ended(run.job):
        return True
    return any(event.value == str(TERMINATED) for event in ends) and run.directory.plan().requeue


def gpu_hours(run: Run, plan: StoredPlan, events: Sequence[Event], now: float) -> float | None:
    """Return the GPUs of the plan times the hours between start and end of each attempt of each job.

    A running attempt counts up to now. None where it is unknown: an attempt without an end, or no start.
    """
    found, seconds = state(run, events), 0.0
    began: dict[str, int] = {}
    for event in events:
        if event.what == "started":
            if event.job_id in began:
                return None
            began[event.job_id] = event.at
        elif event.what == "ended" and event.job_id in began:
            seconds += max(0, event.at - began.pop(event.job_id))
    has_started = any(event.what == "started" for event in events)
    is_known = found == RUNNING if began else has_started or found == JobState.UNSUBMITTED.value
    if plan.gpus is None or not is_known:
        return None
    return plan.gpus * (seconds + sum(max(0.0, now - at) for at in began.values())) / 3600

"""An attempt of a run, and the attempts that the event log of one job shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.runs import endings
from hpcdist.runs.rundir import Event, Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.accounting import Usage
from hpcdist.schedulers.job import JobState, Status, split_id

REQUEUED: Final = "requeued"
ENDED: Final = "ended"
SKIPPED: Final = "skipped"
"""The event of a start that ran no program, as an earlier attempt was the last."""

PRUNED: Final = "pruned"
"""The state of a trial that a policy of its search ended early, and the event of that end."""

_ENDS: Final = frozenset({ENDED, REQUEUED})
_WHOLE: Final = ("started", ENDED)
"""The events of most elements of arrays."""

_COMPLETED: Final[str] = JobState.COMPLETED.value
_MOST_DIGITS: Final = 9
_AGAIN: Final = "again"
_OVER: Final = "over"
"""The events whose value is why an attempt ended: there is to be another one, or none."""

_STATES: Final = {state.value: state for state in (JobState.COMPLETED, JobState.TIMEOUT)}
"""Of an attempt by why there is none after it; it failed for any other reason."""


class Attempt(NamedTuple):
    """One run of the program of a job, or of an element of an array; times are in seconds since 1970.

    ``number``: how often the batch system had started the job before, and its script the program; what the
    program recorded is in ``tracking/JOB/N.M``. ``state``: a final state, ``running``, ``requeued`` where
    the batch system started the job again, ``ended`` where the exit code is unknown, ``pruned``, or
    ``unknown``.
    ``queued`` is when it began to wait for its nodes; an attempt in an allocation that an earlier one had
    did not wait: it is when it started. ``gpu_seconds`` are those of the GPUs that the plan requests, up to
    now while it runs. ``max_memory`` in bytes is what the batch system measured of its start of the job.
    ``usage``: what the accounting has of its start of the job, in which there may have been other attempts.
    ``why``: why it ended, where the script could record it: ``timeout``, ``failure`` and the like.
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
    why: str = ""
    usage: Usage | None = None

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


def submitted(run: Run) -> float | None:
    """Return when a job was submitted, in seconds since 1970; None if it was not."""
    at = run.record.submitted_at
    return datetime.fromisoformat(at).timestamp() if at else None


class Log(NamedTuple):
    """What the event log of one job, or of an element of an array, is read with."""

    job: str
    cancelled: int | None
    event_id: str
    run: Run
    plan: StoredPlan
    submitted: float | None
    now: float
    status: Status | None

    def attempts(self, log: Sequence[Event]) -> Sequence[Attempt]:
        """Return the attempts of these events."""
        is_whole = len(log) == len(_WHOLE) and (log[0].what, log[1].what) == _WHOLE
        queued = self.submitted if self.event_id in (self.job, split_id(self.job)[0]) else None
        if is_whole and self.job != self.event_id:
            return (self._of_element(log[0], log[1], queued),)
        return [*self._of_starts(log, queued)]

    def _of_starts(self, log: Sequence[Event], queued: float | None) -> Iterator[Attempt]:
        places = [place for place, event in enumerate(log) if event.what == "started"]
        for count, (first, end) in enumerate(pairwise([*places, len(log)])):
            part = log[first:end]
            if any(event.what == SKIPPED for event in part):
                continue
            yield from self._start(part, count, queued, is_last=end == len(log))
            queued = next((float(event.at) for event in part if event.what in _ENDS), None)

    def _of_element(self, started: Event, ended: Event, queued: float | None) -> Attempt:
        """Return the only attempt of an element as `_start` would, quickly: most of many trials are so."""
        number, code, plan = _count(started) or 0, _count(ended), self.plan
        gpu_seconds = None if plan.gpus_had is None else plan.gpus_had * max(0.0, ended.at - started.at)
        if code == 0 and self.cancelled is None:
            state = _COMPLETED
        elif end := endings.end_of((started, ended), self.cancelled, plan):
            state = end.state.value
        else:
            state = ENDED if code is None or not plan.requeue else JobState.UNKNOWN.value
        times = (queued, float(started.at), float(ended.at))
        return Attempt(self.job, (number, 0), state, *times, None, code, gpu_seconds)

    def _start(
        self, log: Sequence[Event], count: int, queued: float | None, *, is_last: bool
    ) -> Iterator[Attempt]:
        """Yield the attempts of one start of the job, whose first event this is."""
        number = _count(log[0])
        began, number = float(log[0].at), count if number is None else number
        restarts = [event for event in log if event.what == "restarted"]
        for again, event in enumerate(restarts):
            failed = Attempt(self.job, (number, again), JobState.FAILED.value, queued, began, float(event.at))
            yield with_gpus(failed._replace(exit_code=_count(event), why="failure"), self.plan, self.now)
            began = queued = float(event.at)
        last = Attempt(self.job, (number, len(restarts)), REQUEUED, queued, began)
        if ended := next((event for event in log if event.what in _ENDS), None):
            why = next((event.value for event in log if event.what in (_AGAIN, _OVER)), "")
            last = last._replace(ended=float(ended.at), exit_code=_count(ended), why=why)
        elif not is_last or self._has_failed():
            last = _as_its_script_last_wrote(last, log)
        is_open = is_last and last.state == REQUEUED
        last = self._with_end(last, log) if is_open else last
        if last.exit_code == 0 and any(event.what == PRUNED for event in log):
            last = last._replace(state=PRUNED)
        yield with_gpus(last, self.plan, self.now)

    def _has_failed(self) -> bool:
        """Whether the job ended, and not well; an element of an array is not known to have."""
        known = self.status if self.job == self.event_id else None
        return known is not None and known.state.is_final and known.state is not JobState.COMPLETED

    def _with_end(self, attempt: Attempt, log: Sequence[Event]) -> Attempt:
        """Add how the last attempt of a job ended, or that it runs."""
        status = self.status if self.job == self.event_id else None
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


def _as_its_script_last_wrote(attempt: Attempt, log: Sequence[Event]) -> Attempt:
    """Add the end of an attempt whose script was killed later: in the steps after it, or while requeued."""
    first = {event.what: event for event in reversed(log)}
    if over := first.get(_OVER):
        code = _count(first["finishing"]) if "finishing" in first else None
        state = _STATES.get(over.value, JobState.FAILED).value
        return attempt._replace(state=state, ended=float(over.at), exit_code=code, why=over.value)
    if again := first.get(_AGAIN):
        return attempt._replace(ended=float(again.at), why=again.value)
    return attempt


def with_gpus(attempt: Attempt, plan: StoredPlan, now: float) -> Attempt:
    """Add the GPU-seconds, if its end is known or it runs."""
    end = now if attempt.state == JobState.RUNNING.value else attempt.ended
    if plan.gpus_had is None or attempt.started is None or end is None:
        return attempt
    return attempt._replace(gpu_seconds=plan.gpus_had * max(0.0, end - attempt.started))


def _count(event: Event) -> int | None:
    return int(event.value) if len(event.value) <= _MOST_DIGITS and event.value.isdecimal() else None

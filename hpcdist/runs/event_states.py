"""What a run's event log means: how each start of its jobs ended, its attempts, and its state.

The batch system's answer, if there is one, is a ``Status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from hpcdist.runs.events import Event, StartLog, by_id, starts
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import SIGNALLED, TERMINATED, JobState, Status, Usage, fold, split_id

REQUEUED: Final = "requeued"
ENDED: Final = "ended"
CANCELLED: Final = "cancelled"
PRUNED: Final = "pruned"
"""The state of a trial that a policy of its search ended early, and the event of that end."""

RETURNED: Final = "returned"
"""The event of a packed trial's start that did not end the trial: it is to run again."""

_TOLD: Final = "terminated"
"""The event of a script that got TERM before its program exited with 0: it may be unfinished.

Without it, exit code 0 is the program's own, also if a cancellation kills the script before it exits.
"""

_SKIPPED: Final = "skipped"
"""The event of a start that ran no program, as an earlier attempt was the last."""

_OVER: Final = "over"
_AGAIN: Final = "again"
"""The events whose value is why an attempt ended: ``over``: the last one; else another follows."""

_IN_STEPS: Final = "finishing"
_MARKS: Final = ("started", _OVER, _IN_STEPS, ENDED)
_SHOWN: Final = ("started", _IN_STEPS, "timeout", ENDED, REQUEUED)
"""The last of these events shows whether a job runs; a job that its limit ended may write no later one."""

_ENDS: Final = (ENDED, REQUEUED)
_OF_PACKED: Final = {RETURNED: REQUEUED, CANCELLED: JobState.CANCELLED.value, PRUNED: PRUNED}
"""The states of packed trials' starts that did not end by their program's exit."""

_WHOLE: Final = ["started", ENDED]
"""The events of most elements of arrays."""

_STATES: Final = {state.value: state for state in (JobState.COMPLETED, JobState.TIMEOUT)}
"""The state of an attempt by the reason why no other follows; any other reason is a failure."""

STATES: Final = (
    *(JobState.UNSUBMITTED.value, JobState.RUNNING.value, ENDED, JobState.UNKNOWN.value),
    *(state.value for state in JobState if state.is_final),
)
"""The states that `of_run` returns."""


class Attempt(NamedTuple):
    """One run of the program of a job, or of an element of an array; times are in seconds since 1970."""

    job: str
    number: tuple[int, int]
    """How often the batch system had started the job before, and its script the program.

    What the program recorded is in ``tracking/JOB/N.M``.
    """
    state: str
    """A final state, ``running``, ``unknown`` or ``pruned``; ``ended`` where the exit code is unknown.

    ``requeued`` where the batch system started the job again.
    """
    queued: float | None = None
    """When it began to wait for its nodes; its start, where an earlier attempt had them."""
    started: float | None = None
    ended: float | None = None
    hosts: tuple[str, ...] | None = None
    exit_code: int | None = None
    gpu_seconds: float | None = None
    """GPU-seconds of the GPUs that it has, up to now while it runs."""
    max_memory: int | None = None
    """The bytes that the batch system measured of its start of the job."""
    why: str = ""
    """Why it ended, where the script could record it: ``timeout``, ``failure`` and the like."""
    usage: Usage | None = None
    """The accounting record of its start of the job, which may include other attempts."""

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

    def with_gpus(self, gpus: float | None, now: float) -> Attempt:
        """Return it with its GPU-seconds, if its end is known or it runs."""
        end = now if self.state == JobState.RUNNING.value else self.ended
        if gpus is None or self.started is None or end is None:
            return self
        return self._replace(gpu_seconds=gpus * max(0.0, end - self.started))


# --- How a job ended


def cancelled_at(log: Iterable[Event]) -> int | None:
    """Return the time of the last cancellation in these events; None without one."""
    return max((event.at for event in log if event.what == CANCELLED), default=None)


def end_of(log: Sequence[Event], cancelled: int | None, plan: StoredPlan) -> Status | None:
    """Return how the last start of a job (or element) with these events ended; None if it is alive."""
    last = _last(log)
    began, ended, timeout = last.first("started"), last.last(ENDED), last.last("timeout")
    code = ended.number if ended else None
    is_whole = code == 0 and not last.all(_TOLD)
    if cancelled is not None and not is_whole and (ended is None or ended.at >= cancelled):
        return _status(JobState.CANCELLED, CANCELLED, code)
    if code is None:
        return _status(JobState.TIMEOUT, "timeout") if timeout else None
    if timeout or (code > SIGNALLED and began and ended and _is_limit(ended.at - began.at, plan.walltime)):
        return _status(JobState.TIMEOUT, "timeout" if timeout else ENDED, code)
    if code == TERMINATED and plan.requeue:
        return None
    return _status(JobState.FAILED if code else JobState.COMPLETED, ENDED, code)


def _status(state: JobState, native: str, code: int | None = None) -> Status:
    return Status(state, native, code, source="run directory")


def _is_limit(seconds: int, limit: int | None) -> bool:
    """Whether a job that ran so long reached its time limit, which includes time before the script."""
    return limit is not None and seconds >= limit - min(60, limit // 20)


def has_completed(events: Iterable[Event], job: str) -> bool:
    """Return whether the training of the job completed in its last start, and no step after it failed.

    If the end of a step is unknown, the step may have failed.
    """
    last = _last(event for event in events if event.job_id == job)
    marks = [(event.what, event.value) for event in last.all(*_MARKS)]
    is_over = (_OVER, JobState.COMPLETED.value)
    return is_over in marks and marks[-1] in (is_over, (ENDED, "0"))


def is_in_steps(events: Iterable[Event], job: str) -> bool:
    """Return whether the job's last mark is that the steps after its program had begun."""
    last = _last(event for event in events if event.job_id == job).last(*_MARKS)
    return last is not None and last.what == _IN_STEPS


def _last(log: Iterable[Event]) -> StartLog:
    return [StartLog(()), *starts(log)][-1]


def last_attempt(run: Run, events: Sequence[Event]) -> int | None:
    """Return the place of the job that had the run's last attempt, or repeated the steps after it."""
    since = max((place for place, event in enumerate(events) if event.what == "resumed"), default=0)
    last = [split_id(event.job_id)[0] for event in events[since:] if event.what in (_OVER, _IN_STEPS)]
    found = (place for place, job in enumerate(run.jobs) if job.event_id in last[-1:])
    return next(found, None) if run.is_followed else None


# --- The attempts


class Log(NamedTuple):
    """The event log of one job or array element, and what else is needed to read it."""

    job: str
    events: Sequence[Event]
    cancelled: int | None
    run: Run
    plan: StoredPlan
    submitted: float | None
    status: Status | None

    def attempts(self, now: float) -> Iterator[Attempt]:
        """Yield its attempts, in their order."""
        queued = self.submitted if self.run.event_id in (self.job, split_id(self.job)[0]) else None
        if self.job != self.run.event_id and [event.what for event in self.events] == _WHOLE:
            began, ended = self.events
            yield self._of_element(began, ended, queued).with_gpus(self.plan.gpus_had, now)
            return
        own = [start for start in starts(self.events) if start.is_known]
        for count, start in enumerate(own):
            if start.all(_SKIPPED):
                continue
            *failed, last = tries(start, self.job, count, queued)
            last = self._ended(last, start, is_last=start is own[-1])
            yield from (attempt.with_gpus(self.plan.gpus_had, now) for attempt in (*failed, last))
            queued = next((float(event.at) for event in start.all(*_ENDS)), None)

    def _of_element(self, began: Event, ended: Event, queued: float | None) -> Attempt:
        """Return the one attempt of most elements, as the other methods would, but fast."""
        code, times = ended.number, (queued, float(began.at), float(ended.at))
        whole = Attempt(self.job, (began.number or 0, 0), JobState.COMPLETED.value, *times, None, code)
        return whole if code == 0 and self.cancelled is None else self._with_end(whole, None)

    def _ended(self, last: Attempt, start: StartLog, *, is_last: bool) -> Attempt:
        """Add how the last attempt of a start ended, or that it runs."""
        answer = self.status if self.job == self.run.event_id else None  # unknown for an element
        if ended := start.first(*_ENDS):
            why = start.first(_AGAIN, _OVER)
            last = last._replace(ended=float(ended.at), exit_code=ended.number, why=why.value if why else "")
        elif not is_last or (answer and answer.state.is_final and answer.state is not JobState.COMPLETED):
            last = _as_its_script_last_wrote(last, start)
        if is_last and last.state == REQUEUED:
            last = self._with_end(last, answer)
        return last._replace(state=PRUNED) if last.exit_code == 0 and start.all(PRUNED) else last

    def _with_end(self, attempt: Attempt, status: Status | None) -> Attempt:
        """Add how the last attempt of a job ended, or that it runs."""
        if status and status.state.is_final:
            code = status.exit_code if attempt.exit_code is None else attempt.exit_code
            return attempt._replace(state=status.state.value, exit_code=code)
        if status and status.state is JobState.PENDING:
            return attempt
        if ended := end_of(self.events, self.cancelled, self.plan):
            return attempt._replace(state=ended.state.value)
        if attempt.ended is not None:
            may_live = attempt.exit_code is not None and self.plan.requeue
            return attempt._replace(state=JobState.UNKNOWN.value if may_live else ENDED)
        if status is None or status.state is JobState.UNKNOWN:
            state = JobState.UNKNOWN if self.run.record.ended else JobState.RUNNING
            return attempt._replace(state=state.value)
        return attempt._replace(state=status.state.value)


def tries(start: StartLog, job: str, count: int, queued: float | None) -> list[Attempt]:
    """Return the program's runs in a start; ``count``: its number, if not recorded. The last has no end."""
    first = start.events[0]
    began, number = float(first.at), count if first.number is None else first.number
    found: list[Attempt] = []
    for again, event in enumerate(start.all("restarted")):
        attempt = Attempt(job, (number, again), JobState.FAILED.value, queued, began, float(event.at))
        found.append(attempt._replace(exit_code=event.number, why="failure"))
        began = queued = float(event.at)
    return [*found, Attempt(job, (number, len(found)), REQUEUED, queued, began)]


def of_packed(start: StartLog, node: str, job: Attempt | None) -> list[Attempt]:
    """Return the attempts of one start of a packed trial, whose worker ran in the ``job``."""
    *failed, last = tries(start, start.events[0].job_id, 0, float(start.events[0].at))
    if end := start.first(ENDED, *_OF_PACKED):
        own = ENDED if end.number is None else (JobState.FAILED if end.number else JobState.COMPLETED).value
        state = _OF_PACKED.get(end.what, own)
        last = last._replace(state=state, ended=float(end.at), exit_code=end.number)
    else:
        last = _as_its_job(last, job)
    return [attempt._replace(hosts=(node,)) for attempt in (*failed, last)]


def _as_its_job(attempt: Attempt, job: Attempt | None) -> Attempt:
    """Return an attempt without an end in the state of its job."""
    state = next((state for state in JobState if job and state.value == job.state), JobState.UNKNOWN)
    if job is None or not state.is_final:
        return attempt._replace(state=state.value)
    if state in (JobState.COMPLETED, JobState.FAILED):
        state = JobState.VANISHED
    return attempt._replace(state=state.value, ended=job.ended)


def _as_its_script_last_wrote(attempt: Attempt, start: StartLog) -> Attempt:
    """Add the end of an attempt whose script was killed later: in the steps after it, or while requeued."""
    if over := start.first(_OVER):
        finishing = start.first(_IN_STEPS)
        state = _STATES.get(over.value, JobState.FAILED).value
        code = finishing.number if finishing else None
        return attempt._replace(state=state, ended=float(over.at), exit_code=code, why=over.value)
    if again := start.first(_AGAIN):
        return attempt._replace(ended=float(again.at), why=again.value)
    return attempt


def submitted(run: Run) -> float | None:
    """Return when a job was submitted, in seconds since 1970; None if it was not."""
    at = run.record.submitted_at
    return datetime.fromisoformat(at).timestamp() if at else None


# --- The state of a run whose batch system is not asked


def of_run(run: Run, events: Sequence[Event]) -> str:
    """Return the final state in the record, else what the events show.

    A job that wrote its start and no end is ``running``, though a lost node writes none either; one that
    wrote nothing is ``unknown``, as it may be pending. So is one that may have been requeued or cancelled, or
    that has put itself into the queue again. Several jobs are folded into one state, as in
    `runs.job_states`.
    """
    jobs = [_shown(*own) for own in zip(run.jobs, run.by_job(events), strict=True)]
    if (last := last_attempt(run, events)) is not None:
        return jobs[last].native
    ended = [job.record.ended is not None for job in run.jobs]
    return fold([own for place, own in enumerate(jobs) if place >= run.continued or not ended[place]]).native


def _shown(run: Run, events: Sequence[Event]) -> Status:
    """Return the state of one job, also as its native state."""
    if run.record.ended:
        return _word(run.record.ended.state)
    if run.record.phase in (Phase.CREATED, Phase.REFUSED):
        return _word(JobState.UNSUBMITTED)
    logs = by_id(events)
    last = {job: event for job, log in logs.items() if (event := _last(log).last(*_SHOWN))}
    kinds = {event.what for event in last.values()}
    if REQUEUED not in kinds and kinds & {"started", _IN_STEPS}:
        return _word(JobState.RUNNING if cancelled_at(events) is None else JobState.UNKNOWN)
    if REQUEUED in kinds or not last or run.job is None:
        return _word(JobState.UNKNOWN)
    return _over(run, logs)


def _over(run: Run, logs: Mapping[str, Sequence[Event]]) -> Status:
    """Return how a job ended, or all elements of its array; other jobs' events do not count."""
    log = logs.get(run.event_id, ())
    parts = {split_id(job)[1]: own for job, own in logs.items() if split_id(job)[0] == run.event_id != job}
    needs_plan = parts or any((event.number or 0) > SIGNALLED for event in log)
    plan, cancelled = run.directory.plan() if needs_plan else StoredPlan(), cancelled_at(log)
    if not parts:
        return _ended(log, cancelled, plan)
    elements = plan.elements(run.record.trials)
    known = [_ended(own, cancelled, plan) for index, own in parts.items() if int(index) in elements]
    if known and len(known) == elements.size:
        return fold(known)
    return fold([*known, _word(JobState.UNKNOWN if cancelled is None else JobState.CANCELLED)])


def _ended(log: Sequence[Event], cancelled: int | None, plan: StoredPlan) -> Status:
    """Return how a job or an element ended; with an unknown code, or 0 after TERM, as `ENDED`."""
    last, end = _last(log), end_of(log, cancelled_at(log) if cancelled is None else cancelled, plan)
    is_unknown = any(event.number is None for event in last.all(ENDED))
    if is_unknown or (end and end.state is JobState.COMPLETED and last.all(_TOLD)):
        return Status(JobState.VANISHED, ENDED)
    return _word(end.state if end else JobState.UNKNOWN)


def _word(state: JobState) -> Status:
    return Status(state, state.value)

"""Querying a batch system for jobs: each query asks for the jobs that earlier ones left unresolved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Final

from msgspec.structs import replace

from hpcdist.errors import comma_list
from hpcdist.host.command import Completed, Runner
from hpcdist.runs import endings
from hpcdist.runs.deadline import run_parallel
from hpcdist.runs.elements import Elements
from hpcdist.schedulers import answers
from hpcdist.schedulers.base import Query, Scheduler
from hpcdist.schedulers.job import APART, SIGNALLED, Job, JobState, Rest, Status, fold, fold_array, split_id

MISSING: Final = Status(
    JobState.UNKNOWN, reason="the batch system no longer knows this job", source="batch system"
)
VANISHED: Final = Status(
    JobState.VANISHED,
    reason="the batch system no longer knows this job, and how it ended is unknown",
    source="batch system",
)


class JobStatuses:
    """The statuses of one job: its own under None, those of an array's elements under their indices.

    ``settled`` statuses are definite: an end, or a live state. A later answer may replace ``hints``.
    ``others`` is the end of all elements that have none of their own.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.settled: dict[int | None, Status] = {}
        self.hints: dict[int | None, Status] = {}
        self.others: Status | None = None

    @cached_property
    def elements(self) -> Elements:
        """The elements of the array, from the plan; of a search the numbers of their trials."""
        return endings.elements(self.job)

    def number(self, index: int) -> int:
        """Return the number of the element with this index, which is that of its trial."""
        return (self.elements.at(index) if self.job.trials else None) or index

    def add(self, index: int | None, status: Status, *, provisional: bool) -> None:
        """Add an answer, unless it lags behind the queue, or is about another job with the same id."""
        if _is_other(self.hints.get(None)) or _contradicts(status, self.hints.get(index)):
            return
        status = self._with_whole_code(index, _with_components(status, self.hints.get(index)))
        final = status.state.is_final and not provisional and status.state is not JobState.VANISHED
        (self.settled if final or _is_live(status) else self.hints)[index] = status

    @cached_property
    def _logged(self) -> Mapping[int | None, Status]:
        return endings.read(self.job, self.elements)[0]

    def _with_whole_code(self, index: int | None, status: Status) -> Status:
        """Return the status with the exit code that the script wrote; Slurm shows 137 as ``9:0`` (tried)."""
        if not 0 < (status.exit_code or 0) < SIGNALLED or status.state is JobState.COMPLETED:
            return status
        whole = SIGNALLED + (status.exit_code or 0)
        ended = self._logged.get(index)
        return replace(status, exit_code=whole) if ended and ended.exit_code == whole else status

    def is_unresolved(self) -> bool:
        """Whether further queries are needed; the end of an array does not show how its elements ended."""
        if any(map(_is_live, self.settled.values())):
            return False
        hinted = {index for index in self.hints if index is not None}
        if not (hinted or self.elements):
            return None not in self.settled
        if not self.settled.keys() >= hinted:
            return True
        return self.others is None and any(True for _ in self.elements.outside(self.settled))

    def read_events(self) -> None:
        """Add the ends of the event log, where the batch system does not contradict them."""
        whole = self.settled.get(None, self.hints.get(None))
        ends, others = endings.read(self.job, self.elements)
        if others:
            ends = {index: others for index in self.hints if index in self.elements} | ends
            self.others = self._combined(others, whole)
        for index, ended in ends.items():
            combined = self._combined(ended, self.hints.get(index, whole))
            if combined and index not in self.settled:
                self.settled[index] = combined

    def _combined(self, ended: Status, hint: Status | None) -> Status | None:
        """Return how it ended by the event log and by what the batch system says; None if it contradicts."""
        if hint is not None and _explains(hint, ended):
            return replace(hint, exit_code=ended.exit_code)
        if hint is None or not hint.native or hint is self.settled.get(None):
            return ended
        if hint.state is JobState.VANISHED:  # it is over, and how is not for the batch system to say
            return ended
        return replace(hint, exit_code=ended.exit_code) if hint.state is ended.state else None

    def status(self, missing: Status = MISSING) -> Status | None:
        """Return the status of the whole job, with ``missing`` for unknown elements, or None."""
        parts = self.hints | self.settled
        whole = parts.get(None)
        elements = {index: status for index, status in parts.items() if index is not None}
        live = [status for status in parts.values() if _is_live(status)]
        if live:
            return fold(live)
        if not (elements or self.others) or _is_other(whole):
            return whole
        rest = self._rest(elements, self.others or whole or missing)
        folded = fold_array(elements, rest)
        told = whole and whole.state.is_final and whole.state is not JobState.VANISHED
        if told and folded.state is JobState.COMPLETED:
            return whole
        if not rest or folded is not MISSING:
            return folded
        lost = itertools.islice(self.elements.outside(elements), 10)
        which = comma_list(map(str, lost), size=rest.number)
        return replace(folded, reason=f"the batch system no longer knows these elements: {which}")

    def _rest(self, known: Mapping[int, Status], status: Status) -> Rest | None:
        """Return the elements of which nothing is known, each with this status."""
        first = self.elements.first_outside(known)
        if first is None:
            return None
        return Rest(first, self.elements.size - sum(index in self.elements for index in known), status)


def _explains(end: Status, ended: Status) -> bool:
    """Whether the batch system's state explains why the job, by its event log, was ended by a signal."""
    by_signal = (ended.exit_code or 0) > SIGNALLED
    return by_signal and ended.state is JobState.FAILED and end.state in _REASONS


_REASONS: Final = frozenset(
    {JobState.CANCELLED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL, JobState.PREEMPTED}
)


def _is_live(status: Status) -> bool:
    return status.state is not JobState.UNKNOWN and not status.state.is_final


def _is_other(hint: Status | None) -> bool:
    """Whether the id now belongs to another job."""
    return hint is not None and not hint.native


def _contradicts(status: Status, hint: Status | None) -> bool:
    """Whether an answer is of another start than the queue's; memory that ran out is one way to fail."""
    if hint is None or not hint.state.is_final:
        return False
    return status.state not in {hint.state, JobState.OUT_OF_MEMORY if hint.state is JobState.FAILED else None}


def _with_components(status: Status, hint: Status | None) -> Status:
    """Return the status with how each component ended; the accounting has only one of them for a moment."""
    if hint and not status.reason and hint.state is status.state and hint.reason.startswith(APART):
        return replace(status, reason=hint.reason)
    return status


def _failure(completed: Completed) -> str:
    """Return why a command gave no answer, as the end of a sentence; empty if it answered."""
    if completed.timed_out:
        return f" within {completed.command.timeout:.0f} s"
    return f": {completed.stderr.strip()}" if not completed.ok and completed.stderr.strip() else ""


class QueryResults:
    """The answers about jobs so far; no id occurs twice.

    ``replied``: the first query, which lists live jobs, got all its answers. Otherwise an end in the event
    log proves nothing, as the job may be queued again, and no state is final.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.replied: bool | None = None
        self._known = {job.id: JobStatuses(job) for job in jobs}
        self._failure = ""
        self._unreachable = False

    def run(self, query: Query, runner: Runner) -> None:
        """Run a query for the jobs that are still unresolved."""
        left = [known.job for known in self._known.values() if known.is_unresolved()]
        commands = query.commands(left) if left else ()
        answered = run_parallel([partial(runner.run, command) for command in commands])
        if self.replied is None and answered:
            self.replied = all(completed.ok for completed in answered)
        for completed in answered:
            self._unreachable = self._unreachable or answers.is_unreachable(completed)
            self._failure = self._failure or _failure(completed)
            for key, status in query.read(completed, left).items():
                self._add(key, status, provisional=query.provisional)

    def _add(self, key: str, status: Status, *, provisional: bool) -> None:
        if known := self._known.get(key):
            known.add(None, status, provisional=provisional)
            return
        job_id, index = split_id(key)
        if index and (known := self._known.get(job_id)):
            known.add(known.number(int(index)), status, provisional=provisional)

    def read_events(self) -> None:
        """Add ends from event logs, if the queue was listed and does not have the jobs."""
        for known in self._known.values():
            if self.replied and known.is_unresolved():
                known.read_events()

    def status(self, job: Job) -> Status:
        """Return the status of a job."""
        return self._known[job.id].status() or self._unknown()

    def _unknown(self) -> Status:
        if self.replied:
            return MISSING
        return Status(JobState.UNKNOWN, reason=f"the batch system did not answer{self._failure}")

    def is_missing(self, job: Job) -> bool:
        """Whether the batch system answered without this job, or without some of its elements."""
        status = self.status(job)
        reachable = self.replied and not self._unreachable
        return bool(reachable) and status.state is JobState.UNKNOWN and not status.native

    def vanished(self, job: Job) -> Status:
        """Return the state of a job that has been missing for long; of an array, that of its elements."""
        status = self._known[job.id].status(VANISHED)
        if status and status.state.is_final:
            return status
        never = "" if endings.has_started(job) else "; it never started"
        return replace(VANISHED, reason=f"{VANISHED.reason}{never}")

    def is_certain(self, job: Job) -> bool:
        """Whether the job's state cannot change any more; a failure without an exit code is queried again."""
        known = self._known[job.id]
        status = known.status()
        if not self.replied or status is None or not status.state.is_final:
            return False
        if None not in known.settled and known.is_unresolved():
            return False
        return status.state is not JobState.FAILED or status.exit_code is not None


def query_jobs(scheduler: Scheduler, jobs: Sequence[Job], runner: Runner) -> QueryResults:
    """Run the scheduler's queries; event logs are read before queries that run one command per job."""
    results = QueryResults(jobs)
    for query in scheduler.queries():
        if query.one_by_one:
            results.read_events()
        results.run(query, runner)
    results.read_events()
    return results

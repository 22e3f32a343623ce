"""Asking a batch system for its jobs: one query after the other, each for what the earlier ones left open."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Final

from hpcdist.errors import comma_list
from hpcdist.host.command import Completed, Runner
from hpcdist.runs import endings
from hpcdist.runs.deadline import side_by_side
from hpcdist.schedulers import Query, Scheduler, answers
from hpcdist.schedulers.job import SIGNALLED, Job, JobState, Status, fold, fold_array

MISSING: Final = Status(
    JobState.UNKNOWN, reason="the batch system knows no such job any more", source="batch system"
)
VANISHED: Final = Status(
    JobState.VANISHED,
    reason="the batch system knows no such job any more, and nothing tells how it ended",
    source="batch system",
)


class JobStatuses:
    """What is known of one job: of itself under None, of an array's elements under their indices.

    ``settled`` is what stands: an end, or a living state. ``hints`` a later answer may replace.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.settled: dict[int | None, Status] = {}
        self.hints: dict[int | None, Status] = {}

    @cached_property
    def elements(self) -> frozenset[int]:
        """The indices of the array, by the plan."""
        return frozenset(endings.elements(self.job))

    def take(self, index: int | None, status: Status, *, provisional: bool) -> None:
        """Take an answer, unless it lags behind the queue, or is that of another job with the same id."""
        if _is_other(self.hints.get(None)) or _contradicts(status, self.hints.get(index)):
            return
        final = status.state.is_final and not provisional
        (self.settled if final or _lives(status) else self.hints)[index] = status

    def is_open(self) -> bool:
        """Whether there is more to find out; an array's end does not tell how its elements ended."""
        if any(map(_lives, self.settled.values())):
            return False
        wanted = self.elements | {index for index in self.hints if index is not None}
        return not self.settled.keys() >= wanted if wanted else None not in self.settled

    def read_events(self) -> None:
        """Take the job's own word for its end, where the batch system says nothing else."""
        whole = self.settled.get(None, self.hints.get(None))
        for index, ended in endings.read(self.job, self.elements).items():
            hint = self.hints.get(index, whole)
            if index in self.settled:
                continue
            if hint is not None and _explains(hint, ended):
                self.settled[index] = hint._replace(exit_code=ended.exit_code)
            elif hint is None or not hint.native or hint is self.settled.get(None):
                self.settled[index] = ended
            elif hint.state is ended.state:
                self.settled[index] = hint._replace(exit_code=ended.exit_code)

    def status(self, missing: Status = MISSING) -> Status | None:
        """Return what this adds up to, ``missing`` standing for elements without a word; None for no word."""
        parts = self.hints | self.settled
        whole = parts.get(None)
        elements = {index: status for index, status in parts.items() if index is not None}
        living = [status for status in parts.values() if _lives(status)]
        if living:
            return fold(living)
        if not elements or _is_other(whole):
            return whole
        rest = whole or missing
        folded = fold_array({index: elements.get(index, rest) for index in self.elements | elements.keys()})
        if whole and whole.state.is_final and folded.state is JobState.COMPLETED:
            return whole
        return self._named(folded) if folded is MISSING else folded

    def _named(self, status: Status) -> Status:
        """Return the status of an array that lacks elements, with the first of them."""
        lost = map(str, sorted(self.elements - (self.hints | self.settled).keys()))
        return status._replace(
            reason=f"the batch system does not know these elements any more: {comma_list(lost)}"
        )


def _explains(end: Status, ended: Status) -> bool:
    """Whether the batch system's word for an end tells why a signal ended a job, by the job's own word."""
    by_signal = (ended.exit_code or 0) > SIGNALLED
    return by_signal and ended.state is JobState.FAILED and end.state in _REASONS


_REASONS: Final = frozenset(
    {JobState.CANCELLED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL, JobState.PREEMPTED}
)


def _lives(status: Status) -> bool:
    return status.state is not JobState.UNKNOWN and not status.state.is_final


def _is_other(hint: Status | None) -> bool:
    """Whether the id is that of another job now."""
    return hint is not None and not hint.native


def _contradicts(status: Status, hint: Status | None) -> bool:
    return hint is not None and hint.state.is_final and status.state is not hint.state


def _silence(completed: Completed) -> str:
    """Return why a command gave no answer, behind a sentence that says so; empty where it gave one."""
    if completed.timed_out:
        return f" within {completed.command.timeout:.0f} s"
    return f": {completed.stderr.strip()}" if not completed.ok and completed.stderr.strip() else ""


class Inquiry:
    """What was heard of jobs so far; no id occurs twice.

    ``replied``: the first query, which knows the living, got all its answers. Without them nothing that a job
    wrote is its end, since it may be queued again, and no state is certain to stay.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.replied: bool | None = None
        self._known = {job.id: JobStatuses(job) for job in jobs}
        self._silence = ""
        self._unreachable = False

    def ask(self, query: Query, runner: Runner) -> None:
        """Ask for what is left open."""
        left = [known.job for known in self._known.values() if known.is_open()]
        commands = query.commands(left) if left else ()
        said = side_by_side([partial(runner.run, command) for command in commands])
        if self.replied is None and said:
            self.replied = all(completed.ok for completed in said)
        for completed in said:
            self._unreachable = self._unreachable or answers.is_unreachable(completed)
            self._silence = self._silence or _silence(completed)
            for key, status in query.read(completed, left).items():
                self._take(key, status, provisional=query.provisional)

    def _take(self, key: str, status: Status, *, provisional: bool) -> None:
        if known := self._known.get(key):
            known.take(None, status, provisional=provisional)
            return
        job_id, _, index = key.rpartition("_")
        if (known := self._known.get(job_id)) and index.isdecimal():
            known.take(int(index), status, provisional=provisional)

    def read_events(self) -> None:
        """Take the word of jobs for their end, where the queue was heard and does not have them."""
        for known in self._known.values():
            if self.replied and known.is_open():
                known.read_events()

    def answer(self, job: Job) -> Status:
        """Return what is known of a job."""
        return self._known[job.id].status() or self._unknown()

    def _unknown(self) -> Status:
        if self.replied:
            return MISSING
        return Status(JobState.UNKNOWN, reason=f"the batch system did not answer{self._silence}")

    def is_missing(self, job: Job) -> bool:
        """Whether the batch system answered, and has not this job (or not all of its elements)."""
        status = self.answer(job)
        reachable = self.replied and not self._unreachable
        return bool(reachable) and status.state is JobState.UNKNOWN and not status.native

    def vanished(self, job: Job) -> Status:
        """Return the state of a job that has been missing for long; of an array, what its elements tell."""
        status = self._known[job.id].status(VANISHED)
        if status and status.state.is_final:
            return status
        never = "" if endings.has_begun(job) else "; it never began"
        return VANISHED._replace(reason=f"{VANISHED.reason}{never}")

    def is_certain(self, job: Job) -> bool:
        """Whether the job's state is final for good; a failure without a code is worth another question."""
        known = self._known[job.id]
        status = known.status()
        if not self.replied or status is None or not status.state.is_final:
            return False
        if None not in known.settled and known.is_open():
            return False
        return status.state is not JobState.FAILED or status.exit_code is not None


def inquire(scheduler: Scheduler, jobs: Sequence[Job], runner: Runner) -> Inquiry:
    """Ask one query after the other; what jobs wrote themselves is read before a command for each is run."""
    inquiry = Inquiry(jobs)
    for query in scheduler.queries():
        if query.one_by_one:
            inquiry.read_events()
        inquiry.ask(query, runner)
    inquiry.read_events()
    return inquiry

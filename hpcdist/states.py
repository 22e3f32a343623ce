"""What is known of runs: from the batch system, else from what the job left in its run directory."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist import specs
from hpcdist.job import Job, JobState, Status
from hpcdist.rundir import Event, Run, RunDirectory
from hpcdist.schedulers import Query, Scheduler, schedulers
from hpcdist.world import World

_GRACE: Final = 120.0
"""For so many seconds a submission may be under way elsewhere, or its job not be listed yet."""

_PATIENCE: Final = 30
"""After so many answers in a row without a state, `wait` gives up: about a quarter of an hour."""

_TERMINATED: Final = 143


class Report(NamedTuple):
    """A run and what is known of its job."""

    run: Run
    status: Status

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.status.state.is_final or self.status.state is JobState.UNSUBMITTED

    @property
    def is_unheard(self) -> bool:
        """Whether nobody answered."""
        return self.status.state is JobState.UNKNOWN and not self.status.source


def status(runs: Sequence[Run], world: World) -> list[Report]:
    """Return what is known of these runs, at the cost of one squeue (or its like) for all of them.

    A record that stands at ``submitting`` is settled where the job left a trace or the batch system knows
    its token, and is then brought up to date. A certain end is kept in the record, and not asked for again.
    """
    settled, answered = settle(runs, world)
    jobs: dict[str, list[Job]] = {}
    for run in settled:
        if run.job is not None and run.record.ended is None:
            jobs.setdefault(run.record.scheduler, []).append(run.job)
    inquiries: dict[Job, _Inquiry] = {}
    for name, group in jobs.items():
        for batch in _batches(group):
            inquiries |= dict.fromkeys(batch, _inquiry(schedulers.get(name), batch, world))
    return [_report(run, inquiries, answered, world) for run in settled]


def settle(runs: Iterable[Run], world: World) -> tuple[list[Run], frozenset[str]]:
    """Find out the ids of jobs whose submission got no answer; return the runs, and who could be asked.

    The run directory is asked first, since a batch system forgets; then each scheduler once for all.
    """
    tokens: dict[str, Mapping[str, str]] = {}
    answered: set[str] = set()
    settled = []
    for run in runs:
        job_id = None
        if run.record.phase == "submitting" and not (job_id := _id_from_events(run)):
            name = run.record.scheduler
            if name not in tokens:
                tokens[name], heard = find_tokens(schedulers.get(name), world)
                answered |= {name} if heard else set()
            job_id = tokens[name].get(run.record.token)
        settled.append(world.update(run, phase="submitted", job_id=job_id, message="") if job_id else run)
    return settled, frozenset(answered)


def _id_from_events(run: Run) -> str | None:
    ids = (event.job_id for event in run.directory.events() if event.what in ("submitted", "started"))
    return next((re.sub(r"_[0-9]+$", "", job_id) for job_id in ids), None)


def find_tokens(scheduler: Scheduler, world: World) -> tuple[dict[str, str], bool]:
    """Return job ids by token, and whether the batch system answered at all."""
    found: dict[str, str] = {}
    answers = [world.runner.run(command) for command in scheduler.find()]
    for completed in answers:
        found = {**scheduler.read_find(completed), **found}
    return found, bool(answers) and answers[0].ok


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Divide jobs so that no id occurs twice in a batch: pids, and ids of a new controller, come again."""
    batches: list[dict[str, Job]] = []
    for job in jobs:
        batch = next((batch for batch in batches if job.id not in batch), None)
        if batch is None:
            batches.append(batch := {})
        batch[job.id] = job
    return (list(batch.values()) for batch in batches)


def _inquiry(scheduler: Scheduler, jobs: Sequence[Job], world: World) -> _Inquiry:
    """Ask one query after the other, each for what the earlier ones left open."""
    inquiry = _Inquiry(jobs)
    for query in scheduler.queries():
        if query.one_by_one:
            inquiry.read_events()
        inquiry.ask(query, world)
    inquiry.read_events()
    return inquiry


class _Inquiry:
    """What was heard of jobs so far, by id; no id occurs twice.

    ``heard``: the first query, which knows the living, got all its answers. Without them nothing that a job
    wrote is its end, since it may be queued again, and no state is certain to stay.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.heard: bool | None = None
        self._settled: dict[str, Status] = {}
        self._hints: dict[str, Status] = {}
        self._silence = ""

    def ask(self, query: Query, world: World) -> None:
        """Ask for what is left open."""
        left = self._left()
        answers = [world.runner.run(command) for command in (query.commands(left) if left else ())]
        if self.heard is None:
            self.heard = all(completed.ok for completed in answers)
        for completed in answers:
            self._silence = self._silence or ("" if completed.ok else completed.stderr.strip())
            for job_id, status in query.read(completed, left).items():
                self._take(job_id, status, provisional=query.provisional)

    def _left(self) -> list[Job]:
        return [job for job in self.jobs if job.id not in self._settled]

    def _take(self, job_id: str, status: Status, *, provisional: bool) -> None:
        if _contradicts(status, self._hints.get(job_id)):
            return
        final = status.state.is_final and not provisional
        living = status.state is not JobState.UNKNOWN and not status.state.is_final
        (self._settled if final or living else self._hints)[job_id] = status

    def read_events(self) -> None:
        """Take the word of jobs for their end, where the batch system says nothing else."""
        for job in self._left() if self.heard else ():
            ended, hint = _from_events(job), self._hints.get(job.id)
            if ended and (hint is None or not hint.native):
                self._settled[job.id] = ended
            elif ended and hint and hint.state is ended.state:
                self._settled[job.id] = hint._replace(exit_code=ended.exit_code)

    def answer(self, job: Job) -> Status:
        """Return what is known of a job."""
        return self._settled.get(job.id) or self._hints.get(job.id) or self._unknown()

    def _unknown(self) -> Status:
        if self.heard:
            reason = "the batch system knows no such job any more"
            return Status(JobState.UNKNOWN, reason=reason, source="batch system")
        said = f": {self._silence}" if self._silence else ""
        return Status(JobState.UNKNOWN, reason=f"the batch system did not answer{said}")

    def is_certain(self, job: Job) -> bool:
        """Whether the job's state is final for good; a failure without a code is worth another question."""
        status = self._settled.get(job.id)
        if not self.heard or status is None or not status.state.is_final:
            return False
        return status.state is not JobState.FAILED or status.exit_code is not None


def _contradicts(status: Status, hint: Status | None) -> bool:
    """Whether an answer lags behind the queue, or is that of another job with the same id."""
    if hint is None:
        return False
    return not hint.native or (hint.state.is_final and status.state is not hint.state)


def _report(run: Run, inquiries: Mapping[Job, _Inquiry], answered: frozenset[str], world: World) -> Report:
    if run.record.ended is not None:
        return Report(run, run.record.ended)
    if run.job is None:
        return Report(run, _status(run, answered, world))
    inquiry = inquiries[run.job]
    status = inquiry.answer(run.job)
    if inquiry.is_certain(run.job):
        with contextlib.suppress(OSError):  # another user may look, too
            run = world.update(run, ended=status)
    return Report(run, status)


def _status(run: Run, answered: frozenset[str], world: World) -> Status:
    """Tell of a run without a job."""
    if run.record.phase == "refused":
        return Status(JobState.UNSUBMITTED, "refused", reason=run.record.message, source="record")
    if run.record.phase == "created":
        reason = "it was prepared, but never submitted"
        return Status(JobState.UNSUBMITTED, "created", reason=reason, source="record")
    return _unanswered(run, answered, world)


def _unanswered(run: Run, answered: frozenset[str], world: World) -> Status:
    """Tell of a submission whose answer was lost and whose job was not found."""
    began = datetime.fromisoformat(run.record.submitted_at or run.record.created_at).timestamp()
    if run.record.scheduler not in answered:
        reason = "its submission got no answer, and the batch system cannot be asked now"
    elif world.now() - began < _GRACE:
        reason = f"its submission got no answer yet; ask again in {_GRACE:.0f} s"
    else:
        reason = "its submission got no answer, and the batch system has no such job"
        return Status(JobState.UNSUBMITTED, "submitting", reason=reason, source="record")
    return Status(JobState.UNKNOWN, "submitting", reason=reason, source="record")


def _from_events(job: Job) -> Status | None:
    """Return how the job ended by its own word; None for a living one.

    An array ends with its last element, and as its worst one did. A job does not tell that it is ended to be
    queued again: for those that may be, 143 (TERM) says nothing.
    """
    number, directory = job.id.partition(";")[0], RunDirectory(Path(job.directory))
    last = {event.job_id: event for event in directory.events()}
    codes = [_end(last.get(name)) for name in ([number] if number in last else _elements(number, directory))]
    if not codes or None in codes or (_TERMINATED in codes and directory.plan().get("requeue")):
        return None
    code = max(filter(None, codes), default=0)
    return Status(JobState.FAILED if code else JobState.COMPLETED, "ended", code, source="run directory")


def _elements(number: str, directory: RunDirectory) -> Iterator[str]:
    """Yield what an array's elements call themselves."""
    array = directory.plan().get("array")
    for part in specs.array_ranges(array) if isinstance(array, str) else ():
        yield from (f"{number}_{element}" for element in part)


def _end(event: Event | None) -> int | None:
    """Return the exit code of an end."""
    return int(event.value) if event and event.what == "ended" and event.value.isdecimal() else None


def wait(runs: Sequence[Run], world: World, *, told: Callable[[Report], None] | None = None) -> list[Report]:
    """Return when all these jobs are over, or when nothing was heard of the rest for a long time.

    All are asked for together, after growing pauses: 1 to 30 s, on this machine 0.1 to 1 s. ``told`` hears
    each change.
    """
    reports: dict[str, Report] = {}
    pause, longest = (0.1, 1.0) if all(run.record.scheduler == "local" for run in runs) else (1.0, 30.0)
    silent = 0
    while left := [run for run in runs if not (run.name in reports and reports[run.name].is_over)]:
        now = status(left, world)
        silent = silent + 1 if all(report.status.state is JobState.UNKNOWN for report in now) else 0
        for report in now:
            old = reports.get(report.run.name)
            if told and (old is None or old.status.state is not report.status.state):
                told(report)
            reports[report.run.name] = report
        if silent > _PATIENCE or all(report.is_over for report in now):
            break
        world.sleep(pause)
        pause = min(pause * 1.5, longest)
    return [reports[run.name] for run in runs]

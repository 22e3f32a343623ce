"""What is known of runs: from the batch system, else from what the job left in its run directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from hpcdist.job import Job, JobState, Status
from hpcdist.rundir import Run, RunDirectory
from hpcdist.schedulers import Scheduler, schedulers
from hpcdist.world import World

_GRACE: Final = 120.0
"""For so many seconds a submission may be under way elsewhere, or its job not be listed yet."""

_PATIENCE: Final = 30
"""After so many answers in a row without a state, `wait` gives up: about a quarter of an hour."""


class Report(NamedTuple):
    """A run and what is known of its job."""

    run: Run
    status: Status

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.status.state.is_final or self.status.state is JobState.UNSUBMITTED


def status(runs: Sequence[Run], world: World) -> list[Report]:
    """Return what is known of these runs, at the cost of one squeue (or its like) for all of them.

    A record that stands at ``submitting`` is settled where the job left a trace or the batch system knows
    its token, and is then brought up to date.
    """
    settled, answered = settle(runs, world)
    jobs: dict[str, list[Job]] = {}
    for run in settled:
        if run.job is not None:
            jobs.setdefault(run.record.scheduler, []).append(run.job)
    known: dict[Job, Status] = {}
    for name, group in jobs.items():
        for batch in _batches(group):
            known |= _states(schedulers.get(name), batch, world)
    return [Report(run, _status(run, known, answered, world)) for run in settled]


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
    return next((job_id.partition("_")[0] for job_id in ids), None)


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


def _states(scheduler: Scheduler, jobs: Sequence[Job], world: World) -> dict[Job, Status]:
    """Ask one query after the other, each for what the earlier ones left open."""
    by_id = {job.id: job for job in jobs}
    settled: dict[str, Status] = {}
    hints: dict[str, Status] = {}
    silence = ""
    for query in scheduler.queries():
        left = [job for job in jobs if job.id not in settled]
        for command in query.commands(left) if left else ():
            completed = world.runner.run(command)
            silence = silence or ("" if completed.ok else completed.stderr.strip())
            for job_id, state in query.read(completed, left).items():
                if _contradicts(state, hints.get(job_id)):
                    continue
                final = state.state.is_final and not query.provisional
                living = state.state is not JobState.UNKNOWN and not state.state.is_final
                (settled if final or living else hints)[job_id] = state
    unknown = Status(JobState.UNKNOWN, reason=silence)
    return {job: settled.get(job_id) or hints.get(job_id) or unknown for job_id, job in by_id.items()}


def _contradicts(state: Status, hint: Status | None) -> bool:
    """Whether an answer lags behind: accounting may call a job running that the queue knows to be over."""
    return hint is not None and hint.state.is_final and state.state is not hint.state


def _status(run: Run, known: Mapping[Job, Status], answered: frozenset[str], world: World) -> Status:
    if run.job is not None:
        said = known[run.job]
        if said.state is not JobState.UNKNOWN:
            return said
        return _from_events(run.directory, run.job) or said
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


def _from_events(directory: RunDirectory, job: Job) -> Status | None:
    """Return how the job ended by its own word; None for a living one, and for arrays: who knows the rest."""
    number = job.id.partition(";")[0]
    mine = [event for event in directory.events() if event.job_id == number]
    if not mine or mine[-1].what != "ended" or not mine[-1].value.isdecimal():
        return None
    code = int(mine[-1].value)
    return Status(JobState.FAILED if code else JobState.COMPLETED, "ended", code, source="run directory")


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

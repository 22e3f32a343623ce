"""The verbs of a job: submit it exactly once, ask, wait, cancel, list.

Between two steps of a submission this process may die. What the run directory says then:

    created      no one was asked: the job does not exist
    submitting   the batch system may have been asked: the job carries the record's token, and is found by it
    submitted    the job exists

So a job is never submitted again because an answer was lost; only its user may ask for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist import endings, rundir
from hpcdist.errors import ConfigError, Problem, SchedulerError, SubmissionUnknown
from hpcdist.job import Job, JobState
from hpcdist.rundir import Record, Run, RunDirectory
from hpcdist.schedulers import Scheduler, Submission, schedulers
from hpcdist.states import Report, find_tokens, status
from hpcdist.waiting import wait
from hpcdist.world import World

__all__ = [
    "Report",
    "Request",
    "Submitted",
    "World",
    "cancel",
    "overview",
    "status",
    "submit",
    "wait",
    "way_out",
]

_LOOK_PAUSES: Final = (0.5, 1, 2, 4, 8)


class Interrupted(KeyboardInterrupt):
    """The user broke off while the batch system was asked: the job of ``run`` may exist."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.name)
        self.run = run


class Request(NamedTuple):
    """What is to be submitted; ``files`` makes the run's files (name and text) for its directory."""

    name: str
    site: str
    scheduler: str
    experiment: str
    files: Callable[[RunDirectory], Mapping[str, str]]


class Submitted(NamedTuple):
    """A run whose job exists, and what its user should hear besides."""

    run: Run
    job: Job
    notes: tuple[str, ...] = ()


def submit(request: Request, runs_dir: Path, world: World, *, again: bool = False) -> Submitted:
    """Make a run directory, write the files and submit the script, once.

    Raises:
        SchedulerError: when the batch system refused (the record says so), or when an earlier submission of
            the same experiment, whose answer was lost, lives; ``again`` submits all the same.
        SubmissionUnknown: when no answer came and the job was not found; it may appear yet.
        Interrupted: when the user broke off and the job may exist.
    """
    notes = () if again else _earlier(request, runs_dir, world)
    run, job = _sent(_prepared(request, runs_dir, world), world)
    return Submitted(run, job, notes)


def _prepared(request: Request, runs_dir: Path, world: World) -> Run:
    directory = world.create(runs_dir, request.name)
    try:
        for name, text in {"experiment.yml": request.experiment, **request.files(directory)}.items():
            directory.write(name, text)
    except Exception:
        rundir.remove(directory)
        raise
    record = Record(
        name=request.name,
        token=world.token(),
        site=request.site,
        scheduler=request.scheduler,
        digest=rundir.digest(request.experiment),
        created_at=rundir.timestamp(world.now()),
    )
    world.save(directory, record)
    return Run(directory, record)


def _sent(run: Run, world: World) -> tuple[Run, Job]:
    scheduler = schedulers.get(run.record.scheduler)
    directory = run.directory
    submission = Submission(str(directory.script), str(directory.path), run.record.token)
    run = world.update(run, phase="submitting", submitted_at=rundir.timestamp(world.now()))
    try:
        run = world.update(run, phase="submitted", job_id=_answer(run, scheduler, submission, world))
    except KeyboardInterrupt as error:
        raise Interrupted(run) from error
    return run, Job(run.record.job_id or "", run.name, str(directory.path), run.record.token)


def _answer(run: Run, scheduler: Scheduler, submission: Submission, world: World) -> str:
    """Submit the script and return the job's id."""
    try:
        return scheduler.read_submit(world.runner.run(scheduler.submit(submission)))
    except SubmissionUnknown as error:
        return _looked_up(run, scheduler, world, error)
    except SchedulerError as error:
        world.update(run, phase="refused", message=str(error))
        raise


def _looked_up(run: Run, scheduler: Scheduler, world: World, error: SubmissionUnknown) -> str:
    """Return the id of the job that carries the token, looking for it a few times."""
    for pause in _LOOK_PAUSES:
        world.sleep(pause)
        found, _ = find_tokens(scheduler, world)
        if run.record.token in found:
            return found[run.record.token]
    world.update(run, message=str(error))
    hint = f"do not submit it again: `hpcdist status {run.name}` tells in some minutes whether the job exists"
    raise SubmissionUnknown(*error.problems[:-1], Problem(error.problems[-1].message, hint=hint)) from error


def _earlier(request: Request, runs_dir: Path, world: World) -> tuple[str, ...]:
    """Settle earlier submissions of the same experiment whose answer was lost."""
    same = rundir.digest(request.experiment)
    runs, _ = rundir.listing(runs_dir)
    twins = [run for run in runs if (run.record.phase, run.record.digest) == ("submitting", same)]
    notes = []
    for report in status(twins, world):
        name, state = report.run.name, report.status.state
        if state is JobState.UNSUBMITTED:
            notes.append(f"run {name} of the same experiment is {state.value}: {report.status.reason}")
        elif report.run.job is None:
            hint = f"ask `hpcdist status {name}` later, or submit with --again"
            message = f"run {name} of the same experiment may exist: {report.status.reason}"
            raise SubmissionUnknown(Problem(message, hint=hint))
        elif not state.is_final:
            message = f"the same experiment is {state.value} as job {report.run.record.job_id}, run {name}"
            raise SchedulerError(Problem(message, hint="to submit it a second time, use --again"))
    return tuple(notes)


def overview(runs_dir: Path, world: World) -> tuple[list[Report], tuple[ConfigError, ...]]:
    """Return a report of every run, oldest first, and what is wrong with those that cannot be read."""
    runs, errors = rundir.listing(runs_dir)
    return status(runs, world), errors


def cancel(runs: Sequence[Run], world: World) -> list[Run]:
    """End the jobs of these runs; return the runs whose job was alive. A job that is over stays as it is.

    So does one that has got the id of a job of these runs: only what carries a run's token is ended.

    Raises:
        SchedulerError: when the batch system refused or did not answer, or a run's job is not known.
    """
    reports = status(runs, world)
    jobs: dict[str, list[Job]] = {}
    for run, said in reports:
        if run.job is not None and not said.state.is_final and said.native:
            jobs.setdefault(run.record.scheduler, []).append(run.job)
    for name, group in jobs.items():
        completed = world.runner.run(schedulers.get(name).cancel(group))
        if not completed.ok:
            why = completed.stderr.strip() or f"exit code {completed.returncode}"
            raise SchedulerError(f"the jobs could not be cancelled: {why}")
        for job in group:
            endings.note_cancelled(job, world.now())
    lost = [report.run for report in reports if report.is_unheard or _is_lost(report.run)]
    if lost:
        hint = "; ".join(["ask `hpcdist status` in some minutes", *filter(None, map(way_out, lost))])
        names = ", ".join(run.name for run in lost)
        raise SchedulerError(Problem(f"whether there is a job of {names} is not known", hint=hint))
    asked = {job for group in jobs.values() for job in group}
    return [report.run for report in reports if report.run.job in asked]


def way_out(run: Run) -> str:
    """Return how its user discards a run whose submission may never be settled; of others nothing."""
    if not _is_lost(run):
        return ""
    return f"if you know that {run.name} has no job, remove `{run.directory.path}`"


def _is_lost(run: Run) -> bool:
    return run.job is None and run.record.phase == "submitting"

"""The verbs of a job: submit it exactly once, ask, wait, cancel, list.

Between two steps of a submission this process may die. What the run directory says then:

    created      no one was asked: the job does not exist
    submitting   the batch system may have been asked: the job carries the record's token, and is found by it
    accepted     the job exists, and its user may not know
    submitted    `submit` has printed its id

What ends between `submitting` and `submitted` is an interrupted submission, whoever looks at it meanwhile.
The next `submit` of the same experiment finishes it: that prints the id of its job, and makes none. So who
repeats `submit` until it succeeds has one job, and only `again` makes a second one of what may exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, OutputError, Problem, SchedulerError, SubmissionUnknown
from hpcdist.host import locks, ownership
from hpcdist.runs import rundir
from hpcdist.runs.cancelling import cancel
from hpcdist.runs.deadline import limited
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.runs.services import Services, reread
from hpcdist.runs.states import GRACE, Report, age, find_tokens, status
from hpcdist.runs.waiting import wait
from hpcdist.schedulers import Scheduler, Submission, schedulers
from hpcdist.schedulers.job import JobState

__all__ = [
    "Report",
    "Request",
    "Screen",
    "Services",
    "cancel",
    "overview",
    "status",
    "submit",
    "wait",
]

_LIMIT: Final = 120.0
"""How long a submission may take in seconds; `states.GRACE` is longer."""

_UNFINISHED: Final = (Phase.SUBMITTING, Phase.ACCEPTED)
_BUSY: Final = "another `hpcdist submit` of the same experiment is at work; waiting for its end"
_AGAIN: Final = "to submit it a second time, use --again"

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


class Screen(NamedTuple):
    """What prints: ``result`` a run with its job's id (it may raise ``OSError``), ``note`` a remark."""

    result: Callable[[Run], object] = bool
    note: Callable[[str], object] = bool


SILENT: Final = Screen()


def submit(
    request: Request, runs_dir: Path, services: Services, screen: Screen = SILENT, *, again: bool = False
) -> Run:
    """Make a run directory, write the files, submit the script, once, and print the job's id.

    Where an earlier submission of the same experiment was interrupted, and its job lives or is as young as
    ``states.GRACE``, its run is what is printed and returned, and nothing is submitted. Of several processes
    that do this at once, one works after the other. ``again`` looks at no other submission.

    Raises:
        SchedulerError: when the batch system refused (the record says so), or another process is at it.
        SubmissionUnknown: when no answer came and the job was not found, now or in an earlier submission of
            the same experiment; it may appear yet.
        OutputError: when the job exists and its id could not be printed.
        Interrupted: when the user broke off and the job may exist.
    """
    if again:
        return _submit_and_print(_create_run(request, runs_dir, services), services, screen)
    ownership.make(runs_dir)
    with locks.exclusive(
        runs_dir, rundir.digest(request.experiment), services.sleep, lambda: screen.note(_BUSY)
    ):
        run = _find_interrupted(request, runs_dir, services, screen)
        run = run or _create_run(request, runs_dir, services)
        return _submit_and_print(run, services, screen)


def _submit_and_print(run: Run, services: Services, screen: Screen) -> Run:
    try:
        return _print_id(run if run.job else _submit_script(run, services, screen), services, screen)
    except KeyboardInterrupt as error:
        raise Interrupted(reread(run)) from error


def _create_run(request: Request, runs_dir: Path, services: Services) -> Run:
    directory = services.create(runs_dir, request.name)
    record = Record(
        name=request.name,
        token=services.token(),
        site=request.site,
        scheduler=request.scheduler,
        digest=rundir.digest(request.experiment),
        created_at=rundir.timestamp(services.now()),
    )
    try:
        for name, text in {"experiment.yml": request.experiment, **request.files(directory)}.items():
            directory.write(name, text)
        services.save(directory, record)
    except Exception:
        rundir.remove(directory)
        raise
    return Run(directory, record)


def _submit_script(run: Run, services: Services, screen: Screen) -> Run:
    """Return the run with the id of its job, which is on the disk where that can be written."""
    scheduler = schedulers.get(run.record.scheduler)
    submission = Submission(str(run.directory.script), str(run.directory.path), run.record.token)
    run = services.update(
        run, phase=Phase.SUBMITTING, submitted_at=rundir.timestamp(services.now()), clock=services.host
    )
    job_id = _run_submit(run, scheduler, submission, services)
    try:
        return services.update(run, phase=Phase.ACCEPTED, job_id=job_id)
    except OSError as error:
        screen.note(
            f"{run.directory.record_file}: {error.strerror}: the job's id is not kept there, but found again"
        )
        return run._replace(record=run.record._replace(phase=Phase.ACCEPTED, job_id=job_id))


def _print_id(run: Run, services: Services, screen: Screen) -> Run:
    """Print the id of the run's job, and remember that."""
    try:
        screen.result(run)
    except OSError as error:
        message = f"standard output cannot be written ({error.strerror}), but {run.name} is submitted"
        hint = f"it is job {run.record.job_id}, in `{run.directory.path}`; do not submit it again"
        raise OutputError(Problem(message, hint=hint)) from error
    return services.try_update(run, phase=Phase.SUBMITTED, job_id=run.record.job_id)


def _run_submit(run: Run, scheduler: Scheduler, submission: Submission, services: Services) -> str:
    """Submit the script and return the job's id."""
    command = scheduler.submit(submission)
    command = command._replace(timeout=min(command.timeout, _LIMIT))
    try:
        return scheduler.read_submit(services.runner.run(command))
    except SubmissionUnknown as error:
        return _look_up_job(run, scheduler, services, error)
    except SchedulerError as error:
        services.try_update(run, phase=Phase.REFUSED, message=str(error))
        raise


def _look_up_job(run: Run, scheduler: Scheduler, services: Services, error: SubmissionUnknown) -> str:
    """Return the id of the job that carries the token, looking for it a few times."""
    bounded = services._replace(runner=limited(services.runner, services.now))
    for pause in _LOOK_PAUSES:
        services.sleep(pause)
        found, _ = find_tokens(scheduler, bounded)
        if run.record.token in found:
            return found[run.record.token]
    services.try_update(run, message=str(error))
    hint = f"do not submit it again: `hpcdist status {run.name}` tells in some minutes whether the job exists"
    raise SubmissionUnknown(*error.problems[:-1], Problem(error.problems[-1].message, hint=hint)) from error


def _find_interrupted(request: Request, runs_dir: Path, services: Services, screen: Screen) -> Run | None:
    """Return the run of an interrupted submission of the same experiment, if its job is what is wanted."""
    runs, _ = rundir.listing(runs_dir)
    wanted = (rundir.digest(request.experiment), request.site)
    twins = [
        run
        for run in runs
        if run.record.phase in _UNFINISHED and (run.record.digest, run.record.site) == wanted
    ]
    for report in status(twins, services):
        run, state = report.run, report.status.state
        if state is JobState.UNSUBMITTED:
            screen.note(f"run {run.name} of the same experiment is {state.value}: {report.status.reason}")
        elif run.job is None:
            hint = f"ask `hpcdist status {run.name}` later, or submit with --again"
            message = f"run {run.name} of the same experiment may exist: {report.status.reason}"
            raise SubmissionUnknown(Problem(message, hint=hint))
        elif _is_this_submission(report, services):
            said = f"the same experiment is {state.value} as job {run.job.id}, run {run.name}"
            screen.note(
                f"{said}; its submission was interrupted, so this is its end, and makes no other; {_AGAIN}"
            )
            return run
        else:
            screen.note(
                f"run {run.name} of the same experiment, whose submission was interrupted, is {state.value}"
            )
            services.try_update(run, phase=Phase.SUBMITTED)
    return None


def _is_this_submission(report: Report, services: Services) -> bool:
    """Whether a job is the one that this submission is to make: it lives, or was submitted just now."""
    state = report.status.state
    may_live = report.no_reply or not (state.is_final or state is JobState.UNKNOWN)
    return may_live or (state is not JobState.CANCELLED and age(report.run, services) < GRACE)


def overview(runs_dir: Path, services: Services) -> tuple[list[Report], tuple[ConfigError, ...]]:
    """Return a report of every run, oldest first, and what is wrong with those that cannot be read."""
    runs, errors = rundir.listing(runs_dir)
    return status(runs, services), errors

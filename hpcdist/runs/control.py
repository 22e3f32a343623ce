"""The verbs of a job: submit it exactly once, query, wait, cancel, list.

This process may die between two steps of a submission. The phase in the run directory then means:

    created      the batch system was not called: the job does not exist
    submitting   the batch system may have been called: the job, if any, is found by the record's token
    accepted     the job exists, but its id may not have been printed
    submitted    `submit` has printed its id

A submission that stops between `submitting` and `submitted` is interrupted. The next `submit` of the same
experiment completes it: it prints the id of the existing job and submits no other. Repeating `submit` until
it succeeds therefore makes one job; only `again` submits a second one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.code.prepare import Code
from hpcdist.errors import OutputError, Problem, SchedulerError, SubmissionUnknown
from hpcdist.host import locks, ownership
from hpcdist.host.command import Command
from hpcdist.runs import removing, rundir
from hpcdist.runs.cancelling import cancel
from hpcdist.runs.deadline import with_deadline
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.runs.services import Services, reread
from hpcdist.runs.states import GRACE, Report, age, find_tokens, status
from hpcdist.runs.waiting import wait
from hpcdist.schedulers import Scheduler, Submission, schedulers
from hpcdist.schedulers.job import JobState

__all__ = [
    "Output",
    "Report",
    "Services",
    "SubmitRequest",
    "cancel",
    "status",
    "submit",
    "wait",
]

_LIMIT: Final = 120.0
"""Seconds that a submission may take; `states.GRACE` is longer."""

_UNFINISHED: Final = (Phase.SUBMITTING, Phase.ACCEPTED)
_BUSY: Final = "another `hpcdist submit` of the same experiment is running; waiting for it to finish"
_AGAIN: Final = "to submit it a second time, use --again"

_LOOKUP_PAUSES: Final = (0.5, 1, 2, 4, 8)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while the batch system was called: the job of ``run`` may exist."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.name)
        self.run = run


class SubmitRequest(NamedTuple):
    """What to submit; ``files`` returns the run's files (name and text) for its directory.

    ``code`` puts the code of the job into the run directory, or records that of the current folder.
    """

    name: str
    site: str
    scheduler: str
    experiment: str
    files: Callable[[RunDirectory], Mapping[str, str]]
    code: Callable[[RunDirectory], Code] = lambda _: Code()


class Output(NamedTuple):
    """How to print: ``result`` a run with its job id (may raise ``OSError``), ``note`` a remark."""

    result: Callable[[Run], object] = bool
    note: Callable[[str], object] = bool


SILENT: Final = Output()


def submit(
    request: SubmitRequest,
    runs_dir: Path,
    services: Services,
    output: Output = SILENT,
    *,
    again: bool = False,
) -> Run:
    """Make a run directory, write its files, submit the script exactly once, and print the job id.

    If an earlier submission of the same experiment was interrupted, and its job is alive or younger than
    ``states.GRACE``, that run is printed and returned, and nothing is submitted. Concurrent calls for the
    same experiment run one after the other. ``again`` ignores earlier submissions.

    Raises:
        SchedulerError: if the batch system refused (this is recorded), or another process keeps submitting.
        SubmissionUnknown: if there was no answer and the job was not found, now or in an earlier submission
            of the same experiment; it may still appear.
        OutputError: if the job exists but its id could not be printed.
        Interrupted: on Ctrl-C, if the job may exist.
    """
    if again:
        return _submit_and_print(*_create_run(request, runs_dir, services), services, output)
    ownership.make(runs_dir)
    with locks.exclusive(
        runs_dir, rundir.digest(request.experiment), services.sleep, lambda: output.note(_BUSY)
    ):
        found = _find_interrupted(request, runs_dir, services, output)
        run, code = (found, Code()) if found else _create_run(request, runs_dir, services)
        return _submit_and_print(run, code, services, output)


def _submit_and_print(run: Run, code: Code, services: Services, output: Output) -> Run:
    for text in code.notes:
        output.note(text)
    try:
        submitted = run if run.job else _submit_script(run, code.folder, services, output)
        return _print_id(submitted, services, output)
    except KeyboardInterrupt as error:
        raise Interrupted(reread(run)) from error


def _create_run(request: SubmitRequest, runs_dir: Path, services: Services) -> tuple[Run, Code]:
    """Make the run and its code; its record, without which it is no run, is written last."""
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
        files = {"experiment.yml": request.experiment, **request.files(directory)}
        code = request.code(directory)
        for name, text in {**files, **code.files}.items():
            directory.write(name, text)
        services.save(directory, record)
    except (Exception, KeyboardInterrupt):
        removing.remove_directory(directory)
        raise
    return Run(directory, record), code


def _submit_script(run: Run, folder: str, services: Services, output: Output) -> Run:
    """Submit the script in this folder; return the run with its job id, saved if the disk permits."""
    scheduler = schedulers.get(run.record.scheduler)
    submission = Submission(str(run.directory.script), str(run.directory.path), run.record.token)
    run = services.update(
        run, phase=Phase.SUBMITTING, submitted_at=rundir.timestamp(services.now()), clock=services.host
    )
    command = submit_command(scheduler, submission, folder)
    job_id = _run_submit(run, scheduler, command, services)
    try:
        return services.update(run, phase=Phase.ACCEPTED, job_id=job_id)
    except OSError as error:
        output.note(
            f"{run.directory.record_file}: {error.strerror}: the job id is not saved, but will be found again"
        )
        return run._replace(record=run.record._replace(phase=Phase.ACCEPTED, job_id=job_id))


def _print_id(run: Run, services: Services, output: Output) -> Run:
    """Print the id of the run's job, and record that it was printed."""
    try:
        output.result(run)
    except OSError as error:
        message = f"standard output cannot be written ({error.strerror}), but {run.name} is submitted"
        hint = f"it is job {run.record.job_id}, in `{run.directory.path}`; do not submit it again"
        raise OutputError(Problem(message, hint=hint)) from error
    return services.try_update(run, phase=Phase.SUBMITTED, job_id=run.record.job_id)


def submit_command(scheduler: Scheduler, submission: Submission, folder: str) -> Command:
    """Return the command that submits the script in this folder, in which the job then starts.

    Some batch systems take the folder from PWD, which a shell has set.
    """
    command = scheduler.submit(submission)
    command = command._replace(timeout=min(command.timeout, _LIMIT))
    if not folder:
        return command
    return command._replace(cwd=folder, environment=(*command.environment, ("PWD", folder)))


def _run_submit(run: Run, scheduler: Scheduler, command: Command, services: Services) -> str:
    """Submit the script and return the job id."""
    try:
        return scheduler.read_submit(services.runner.run(command))
    except SubmissionUnknown as error:
        return _look_up_job(run, scheduler, services, error)
    except SchedulerError as error:
        services.try_update(run, phase=Phase.REFUSED, message=str(error))
        raise


def _look_up_job(run: Run, scheduler: Scheduler, services: Services, error: SubmissionUnknown) -> str:
    """Return the id of the job with the run's token, searching for it several times."""
    bounded = services._replace(runner=with_deadline(services.runner, services.now))
    for pause in _LOOKUP_PAUSES:
        services.sleep(pause)
        found, _ = find_tokens(scheduler, bounded)
        if run.record.token in found:
            return found[run.record.token]
    services.try_update(run, message=str(error))
    hint = (
        f"do not submit it again: `hpcdist status {run.name}` shows in a few minutes whether the job exists"
    )
    raise SubmissionUnknown(*error.problems[:-1], Problem(error.problems[-1].message, hint=hint)) from error


def _find_interrupted(
    request: SubmitRequest, runs_dir: Path, services: Services, output: Output
) -> Run | None:
    """Return the run of an interrupted submission of the same experiment that this one completes, if any."""
    runs, _ = rundir.list_runs(runs_dir)
    identity = (rundir.digest(request.experiment), request.site)
    interrupted = [
        run
        for run in runs
        if run.record.phase in _UNFINISHED and (run.record.digest, run.record.site) == identity
    ]
    for report in status(interrupted, services):
        run, state = report.run, report.status.state
        if state is JobState.UNSUBMITTED:
            output.note(f"run {run.name} of the same experiment is {state.value}: {report.status.reason}")
        elif run.job is None:
            hint = f"check `hpcdist status {run.name}` later, or submit with --again"
            message = f"run {run.name} of the same experiment may have a job: {report.status.reason}"
            raise SubmissionUnknown(Problem(message, hint=hint))
        elif _is_this_submission(report, services):
            found = f"the same experiment is {state.value} as job {run.job.id}, run {run.name}"
            output.note(
                f"{found}; its submission was interrupted, and is completed now without another job; {_AGAIN}"
            )
            return run
        else:
            output.note(
                f"run {run.name} of the same experiment, whose submission was interrupted, is {state.value}"
            )
            services.try_update(run, phase=Phase.SUBMITTED)
    return None


def _is_this_submission(report: Report, services: Services) -> bool:
    """Whether an earlier job is the one of this submission: it is alive, or was submitted just now."""
    state = report.status.state
    may_be_alive = report.no_reply or not (state.is_final or state is JobState.UNKNOWN)
    return may_be_alive or (state is not JobState.CANCELLED and age(report.run, services) < GRACE)

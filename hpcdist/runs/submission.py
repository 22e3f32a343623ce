"""Submitting a job exactly once.

This process may die between two steps of a submission. The phase in the run directory then means:

    created      the batch system was not called: the job does not exist
    submitting   the batch system may have been called: the job, if any, is found by the record's token
    accepted     the job exists, but its id may not have been printed
    submitted    `submit` has printed its id

A submission that stops between `submitting` and `submitted` is interrupted. The next `submit` of the same
experiment completes it: it prints the id of the existing job and submits no other. Repeating `submit` until
it succeeds therefore makes one job; only `again` submits a second one.

A run of several jobs has a record for each before the first is submitted. If it is interrupted between two
jobs, it is completed in the same way: the next `submit` submits the missing ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base import locks, ownership
from hpcdist.base.command import Command
from hpcdist.base.errors import OutputError, Problem, SchedulerError, SubmissionUnknown
from hpcdist.runs import cancelling, code_record, finding, removing, rundir
from hpcdist.runs.cancelling import cancel
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.job_states import Report, find_tokens, status
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.runs.services import Services, renewed, with_deadline
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Scheduler, Submission
from hpcdist.schedulers.job import JobState

# --- Submissions that were interrupted, which the next one of the same experiment completes

_UNFINISHED: Final = (Phase.SUBMITTING, Phase.ACCEPTED)
_MISSING: Final = (Phase.CREATED, Phase.REFUSED)
_AGAIN: Final = "to submit it a second time, use --again"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while the batch system was called: the job of ``run`` may exist."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.name)
        self.run = run


def find(
    identity: tuple[str, str, str], runs_dir: Path, services: Services, note: Callable[[str], object]
) -> Run | None:
    """Return the run of an interrupted submission of the same experiment that this one completes, if any.

    ``identity``: the hash of the experiment, the site, and the remote.

    Raises:
        SubmissionUnknown: if it is unknown whether such a run has a job.
    """
    runs, _ = finding.list_runs(runs_dir)
    records = ((run, run.record) for run in runs)
    same = [run for run, one in records if (one.digest, one.site, one.remote) == identity]
    for report in status([run for run in same if _is_interrupted(run)], services):
        run, state = report.run, report.status.state
        if lost := [job for job in report.jobs if not job.run.job and job.status.state is JobState.UNKNOWN]:
            hint = f"check `hpcdist status {run.name}` later, or submit with --again"
            message = f"run {run.name} of the same experiment may have a job: {lost[0].status.reason}"
            raise SubmissionUnknown(Problem(message, hint=hint))
        if not any(job.run.job for job in report.jobs):
            note(f"run {run.name} of the same experiment is {state.value}: {report.status.reason}")
        elif not _is_cancelled(report):
            note(f"{_found(report)}; {_AGAIN}")
            return run
        else:
            note(f"run {run.name} of the same experiment, whose submission was interrupted, is {state.value}")
            for job in (job for job in run.jobs if job.job):
                services.try_update(job, phase=Phase.SUBMITTED)
    return None


def _is_interrupted(run: Run) -> bool:
    """Whether a job's id may not have been printed, or only some of several jobs were submitted."""
    phases = [job.record.phase for job in run.jobs]
    if any(phase in _UNFINISHED for phase in phases):
        return True
    return any(phase in _MISSING for phase in phases) and not all(phase in _MISSING for phase in phases)


def _found(report: Report) -> str:
    run, state = report.run, report.status.state.value
    missing = [job for job in run.jobs if job.job is None]
    if missing:
        jobs = f"{len(run.jobs) - len(missing)} of {len(run.jobs)} jobs"
        return f"run {run.name} of the same experiment has {jobs}; its submission goes on now"
    found = f"the same experiment is {state} as job {run.record.job_id}, run {run.name}"
    return f"{found}; its submission was interrupted, and is completed now without another job"


def _is_cancelled(report: Report) -> bool:
    """Whether the user cancelled it, so knew of it, and now wants another one.

    Any other end may have come before the user saw the job's id, however long ago.
    """
    if cancelling.is_cancelled(report.run.directory) and all(job.is_over for job in report.jobs):
        return True
    reports = [report] if report.run.is_followed else report.jobs
    return any(one.status.state is JobState.CANCELLED for one in reports)


# --- What `submission.submit` is asked to submit


class SubmitRequest(NamedTuple):
    """What to submit; ``files`` returns the run's files (name and text) for its directory.

    ``code`` puts the code of the job into the run directory, or records the code of the current folder.
    ``options``: options of the submission, as in the plan. ``jobs``: the trials of each of its jobs, as in
    `Record`; ``one_by_one``: each begins when the one before has ended; ``followed``: it also continues what
    that one did not complete. ``after``: the id of a job of another run that must have ended, in whatever
    way, before the first job begins. ``restart_of``, ``copy_of``, ``operation``, ``remote``, ``file``: as in
    `Record`; ``there``: the folder of all runs there. ``changes``: the options with which the experiment is
    read, as command-line words. ``mark``: what else tells it from submissions of the same experiment.
    """

    name: str
    site: str
    scheduler: str
    experiment: str
    files: Callable[[RunDirectory], Mapping[str, str]]
    code: Callable[[RunDirectory], CodeResult] = lambda _: CodeResult()
    options: tuple[str, ...] = ()
    jobs: Sequence[str] = ("",)
    one_by_one: bool = False
    followed: bool = False
    after: str = ""
    restart_of: str = ""
    copy_of: str = ""
    operation: str = ""
    remote: str = ""
    there: str = ""
    changes: tuple[str, ...] = ()
    mark: str = ""
    file: str = ""

    @property
    def digest(self) -> str:
        """What identifies the submission: the hash of its experiment, options and mark."""
        return rundir.digest(json.dumps([self.experiment, self.changes, self.mark]))

    @property
    def texts(self) -> dict[str, str]:
        """The files that say what was submitted: the user's, and the options, which only hpcdist writes."""
        return {"experiment.yml": self.experiment, rundir.OPTIONS: f"{json.dumps(self.changes)}\n"}


# --- Submitting a request exactly once

_LIMIT: Final = 120.0
"""Seconds that a submission may take; `job_states.GRACE` is longer."""

_BUSY: Final = "another `hpcdist submit` of the same experiment is running; waiting for it to finish"
_LOOKUP_PAUSES: Final = (0.5, 1, 2, 4, 8)


class SubmitOutput(NamedTuple):
    """How to print: ``result`` a run with its job id (may raise ``OSError``), ``note`` a remark."""

    result: Callable[[Run], object] = bool
    note: Callable[[str], object] = bool


SILENT: Final = SubmitOutput()


def submit(
    request: SubmitRequest,
    runs_dir: Path,
    services: Services,
    output: SubmitOutput = SILENT,
    *,
    again: bool = False,
) -> Run:
    """Make a run directory, write its files, submit the script exactly once, and print the job id.

    If an earlier submission of the same experiment was interrupted, and its job was not cancelled, that run
    is printed and returned, whether the job is alive or has ended, and nothing is submitted. Concurrent calls
    for the same experiment run one after the other. ``again`` ignores earlier submissions.

    Raises:
        SchedulerError: if the batch system refused (this is recorded), or another process keeps submitting.
        SubmissionUnknown: if there was no answer and the job was not found, now or in an earlier submission
            of the same experiment; it may still appear.
        OutputError: if the job exists but its id could not be printed.
        Interrupted: on Ctrl-C, if the job may exist.
    """
    if again:
        run, code = create_run(request, runs_dir, services)
        return _submit_and_print(request, run, code, services, output)
    ownership.make(runs_dir)
    digest = request.digest
    with locks.exclusive(runs_dir, digest, services.sleep, lambda: output.note(_BUSY)):
        identity = digest, request.site, request.remote
        found = find(identity, runs_dir, services, output.note)
        there = found and CodeResult(folder=code_record.read(found.directory).job_folder)
        run, code = (found, there) if found and there else create_run(request, runs_dir, services)
        return _submit_and_print(request, run, code, services, output)


def _submit_and_print(
    request: SubmitRequest, run: Run, code: CodeResult, services: Services, output: SubmitOutput
) -> Run:
    for text in code.notes:
        output.note(text)
    try:
        submitted = submit_jobs(
            run, code.folder, services, output, one_by_one=request.one_by_one, after=request.after
        )
        return print_jobs(submitted, services, output)
    except KeyboardInterrupt as error:
        raise Interrupted(renewed(run)) from error


def submit_jobs(  # noqa: PLR0913 - what `submit` passes on
    run: Run,
    folder: str,
    services: Services,
    output: SubmitOutput = SILENT,
    *,
    one_by_one: bool = False,
    after: str = "",
) -> Run:
    """Submit the jobs of a run that have no id yet, in order; return the run with all ids.

    If the user has cancelled the run meanwhile, the rest is not submitted, and its jobs are cancelled.
    ``after``: as in `SubmitRequest`.

    Raises:
        SchedulerError: as `submit`; jobs submitted before are kept.
    """
    found: list[Run] = []
    for job in run.jobs:
        if found and not job.job and cancelling.is_cancelled(run.directory):
            return _cancelled(run, found, services, output)
        before = _before(found, run, after) if one_by_one or run.is_followed or not found else ()
        try:
            new = job if job.job else _submit_script(_anew(job, services), folder, services, output, before)
        except SubmissionUnknown:
            raise
        except SchedulerError as error:
            if not found or not run.is_followed:
                raise
            output.note(f"{run.name} has {len(found)} of {len(run.jobs)} jobs; the next was refused: {error}")
            found[0] = services.update(found[0], jobs=len(found))
            break
        found.append(new)
    if cancelling.is_cancelled(run.directory):
        return _cancelled(run, found, services, output)
    return found[0]._replace(later=tuple(found[1:]))


def _cancelled(run: Run, found: Sequence[Run], services: Services, output: SubmitOutput) -> Run:
    """Cancel the jobs that the user's `cancel` did not know of yet; return the run with its jobs."""
    output.note(f"{run.name} was cancelled when it had {len(found)} of {len(run.jobs)} jobs")
    first = services.update(found[0], jobs=len(found)) if run.is_followed else found[0]
    submitted = first._replace(later=tuple(found[1:]))
    cancel([submitted], services)
    return submitted


def _before(found: Sequence[Run], run: Run, after: str) -> tuple[str, ...]:
    """Return the ids of the jobs that the next one waits for: jobs of its run, else ``after``."""
    # A follower waits for all: after a cancelled one, it would start while an earlier one still runs.
    earlier = [job.record for job in (found if run.is_followed else found[-1:])]
    ids = [one.job_id or "" for one in earlier if one.ended is None]  # an ended one may be forgotten
    return tuple(ids if found else filter(None, [after]))


def _anew(job: Run, services: Services) -> Run:
    """Reset a refused job to one that was not submitted yet, and save its record."""
    if job.record.phase is not Phase.REFUSED:
        return job
    # A remote keeps the answer to the submission of a token.
    token = services.token() if job.record.remote else job.record.token
    record = replace(job.record, phase=Phase.CREATED, message="", token=token)
    services.save(job.directory, record)
    return job._replace(record=record)


def create_run(request: SubmitRequest, runs_dir: Path, services: Services) -> tuple[Run, CodeResult]:
    """Make the run and its code; its record, without which it is no run, is written last."""
    directory = services.create(runs_dir, request.name)
    record = Record(
        name=request.name,
        token=services.token(),
        site=request.site,
        scheduler=request.scheduler,
        digest=request.digest,
        created_at=rundir.timestamp(services.now()),
        jobs=len(request.jobs),
        trials=request.jobs[0],
        restart_of=request.restart_of,
        copy_of=request.copy_of,
        operation=request.operation,
        file=request.file,
        remote=request.remote,
        there=f"{request.there}/{directory.name}" if request.remote else "",
    )
    run = Run(directory, record, tuple(_further(directory, record, request, services)))
    try:
        files = {**request.texts, **request.files(directory)}
        code = request.code(directory)
        for name, text in {**files, **code.files}.items():
            directory.write(name, text)
        for job in reversed(run.jobs):
            services.save(job.directory, job.record)
        services.send(run)
    except (Exception, KeyboardInterrupt):
        removing.remove_directory(directory)
        raise
    return run, code


def _further(
    directory: RunDirectory, first: Record, request: SubmitRequest, services: Services
) -> Iterator[Run]:
    """Yield the jobs of a new run after its first one."""
    for number, trials in enumerate(request.jobs[1:], 2):
        own = first.further(services.token(), first.created_at, trials)
        yield Run(directory._replace(number=number), replace(own, goes_on=request.followed))


def _submit_script(
    run: Run, folder: str, services: Services, output: SubmitOutput, after: tuple[str, ...]
) -> Run:
    """Submit the script in this folder; return the run with its job id, saved if the disk permits."""
    scheduler = schedulers.get(run.record.scheduler)
    paths = str(run.directory.script), str(run.directory.path)
    submission = Submission(*paths, run.record.token, after, run.directory.plan().submit_options)
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
        return run._replace(record=replace(run.record, phase=Phase.ACCEPTED, job_id=job_id))


def print_jobs(run: Run, services: Services, output: SubmitOutput) -> Run:
    """Print the ids of the run's jobs, and record that they were printed.

    Raises:
        OutputError: as `submit`.
    """
    try:
        output.result(run)
    except OSError as error:
        message = f"standard output cannot be written ({error.strerror}), but {run.name} is submitted"
        hint = f"it is job {run.record.job_id}, in `{run.directory.path}`; do not submit it again"
        raise OutputError(Problem(message, hint=hint)) from error
    jobs = [services.try_update(job, phase=Phase.SUBMITTED, job_id=job.record.job_id) for job in run.jobs]
    return jobs[0]._replace(later=tuple(job._replace(later=()) for job in jobs[1:]))


def submit_command(scheduler: Scheduler, submission: Submission, folder: str) -> Command:
    """Return the command that submits the script in this folder, in which the job then starts."""
    command = scheduler.submit(submission)
    return command._replace(timeout=min(command.timeout, _LIMIT)).in_folder(folder)


def _run_submit(run: Run, scheduler: Scheduler, command: Command, services: Services) -> str:
    """Submit the script and return the job id."""
    try:
        return scheduler.read_submit(services.start(run, command))
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

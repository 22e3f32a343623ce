"""Submissions that were interrupted, which the next one of the same experiment completes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hpcdist.errors import Problem, SubmissionUnknown
from hpcdist.runs import finding, stopping
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report, status
from hpcdist.schedulers.job import JobState

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
    """Whether a job may have been submitted without a print of its id, or only some of several were."""
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
    """Whether a user ended it, who thus knew of it, and now wants another one.

    An end of another kind may have come before anybody saw the job's id, however long ago that was.
    """
    if stopping.is_cancelled(report.run.directory) and all(job.is_over for job in report.jobs):
        return True
    reports = [report] if report.run.is_followed else report.jobs
    return any(one.status.state is JobState.CANCELLED for one in reports)

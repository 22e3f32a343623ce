"""The exit code of `wait`, and of all verbs that exit with a job's code; `base.errors.ExitCode` lists all."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdist.base.errors import ExitCode, SchedulerError
from hpcdist.cli.jobs import runs
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers.job import JobState, Status


def of_reports(reports: Sequence[Report]) -> int:
    """Return the exit code of the first one that failed, of those that were needed; else 0."""
    unneeded: set[RunDirectory] = set()
    if any(report.run.record.operation for report in reports):
        from hpcdist.studies.pipeline_runs import unneeded_runs  # rarely needed

        unneeded = unneeded_runs(reports)
    needed = (report for report in reports if report.run.directory not in unneeded)
    return next(filter(None, map(of_report, needed)), 0)


def of_report(report: Report) -> int:
    """Return the exit code of a job as `of_status`; 82 for a search that has further generations."""
    return of_status(report.status) or (ExitCode.NOT_OVER if runs.next_generation(report) else 0)


def of_status(status: Status) -> int:
    """Return the exit code of the job; 5 if the job or its end is unknown, 1 for a failure without a code.

    143 for a job that ran out of time: batch systems show the program's code, 137, 142, 143 or none then.
    """
    if status.state is JobState.COMPLETED:
        return status.exit_code or 0
    if status.state in (JobState.UNSUBMITTED, JobState.UNKNOWN, JobState.VANISHED):
        return SchedulerError.exit_code
    if status.state is JobState.TIMEOUT:
        return ExitCode.TERMINATED
    return status.exit_code or 1

"""When the batch system expects the jobs of runs to start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState

if TYPE_CHECKING:
    from hpcdist.runs.job_states import Report
    from hpcdist.runs.rundir import Run
    from hpcdist.runs.services import Services


def expected(reports: Iterable[Report], services: Services) -> Mapping[str, float]:
    """Return times in seconds since 1970 by job id, of the jobs that wait and have an estimate.

    One query to each batch system; one that does not answer has no estimates.
    """
    waiting: dict[tuple[str, str], list[Run]] = {}
    for report in reports:
        if report.status.state is JobState.PENDING and report.run.job:
            where = report.run.record.remote, report.run.record.scheduler
            waiting.setdefault(where, []).append(report.run)
    found: dict[str, float] = {}
    for (_, name), runs in waiting.items():
        if starts := schedulers.get(name).starts:
            jobs, runner = [run.job for run in runs if run.job], services.at(runs).runner
            for command in starts.commands(jobs):
                found.update(starts.read(runner.run(command), jobs))
    return found

"""When the batch system expects the jobs of runs to start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hpcdist.schedulers import schedulers
from hpcdist.schedulers.estimates import HasStarts
from hpcdist.schedulers.job import Job, JobState

if TYPE_CHECKING:
    from hpcdist.runs.services import Services
    from hpcdist.runs.states import Report


def expected(reports: Iterable[Report], services: Services) -> Mapping[str, float]:
    """Return times in seconds since 1970 by job id, of the jobs that wait and have an estimate.

    One query to each batch system; one that does not answer has no estimates.
    """
    waiting: dict[str, list[Job]] = {}
    for report in reports:
        if report.status.state is JobState.PENDING and report.run.job:
            waiting.setdefault(report.run.record.scheduler, []).append(report.run.job)
    found: dict[str, float] = {}
    for name, jobs in waiting.items():
        scheduler = schedulers.get(name)
        if isinstance(scheduler, HasStarts):
            starts = scheduler.starts()
            for command in starts.commands(jobs):
                found.update(starts.read(services.runner.run(command), jobs))
    return found

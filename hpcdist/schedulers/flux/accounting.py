"""The start of a job in Flux, which starts none again, and measures neither memory nor CPU time.

Sources: flux-jobs(1); answers of flux-core 0.88.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.accounting import Usage
from hpcdist.schedulers.flux.queries import ById, jobs_of, status
from hpcdist.schedulers.job import Job


class Times:
    """The job by its id."""

    at_once: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        yield from ById().commands(jobs)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield its start."""
        for job_id, record in jobs_of(completed.stdout):
            if job_id == job.id:
                yield _usage(record)


def _usage(record: Mapping[str, Any]) -> Usage:
    said = status(record)
    queued, started, ended = (_time(record.get(name)) for name in ("t_submit", "t_run", "t_cleanup"))
    try:
        hosts = tuple(hostlist.expand(str(record.get("nodelist", ""))))
    except ValueError:
        hosts = ()
    cpus = record.get("ncores")
    usage = Usage(None, said.state, queued, started, ended, said.exit_code, hosts)
    return replace(usage, cpus=cpus if type(cpus) is int else None)


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None

"""When PBS expects jobs to start: ``estimated.start_time``, where its server estimates that.

Sources: qstat(1B) and job attributes(7B) of PBS Professional; answers of public machines, such as
``estimated.start_time = Tue Feb 14 02:10:01 2023``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.accounting import moment
from hpcdist.schedulers.base import Estimate
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.pbs.queries import command, key, records


class Estimated:
    """The estimates that its server writes into jobs that wait; for a script there is none."""

    def test(self, script: str) -> None:
        """Return no command."""

    def read_test(self, completed: Completed) -> Estimate:
        """Return nothing."""
        del completed
        return Estimate()

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for all of them."""
        if ids := [job.id for job in jobs if key(job.id)]:
            yield command("qstat", "-f", "-F", "dsv", *ids)._replace(timeout=15.0)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return the times of the jobs that have one."""
        found = {}
        answer = records(completed.stdout).items()
        times = {key(job_id): record.get("estimated.start_time") for job_id, record in answer}
        for job in jobs:
            start = moment(times.get(key(job.id)) or "")
            if start is not None:
                found[job.id] = start
        return found

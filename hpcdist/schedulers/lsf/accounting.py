"""What a job in LSF used, while bjobs knows it: its times have no year, and are not read.

``max_mem`` and ``cpu_used`` are those of all processes of the job; ``slots`` are its CPUs at most sites.
Source: https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-bjobs, of 10.1.0.2 and later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.accounting import Usage, count, seconds, size
from hpcdist.schedulers.job import Job, split_id
from hpcdist.schedulers.lsf.queries import DROP, base_id, key, records, status

_COLUMNS: Final = "jobid jobindex stat exit_code exit_reason max_mem cpu_used slots"


class MaxMem:
    """The job, or each element of an array."""

    at_once: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield Command(("bjobs", "-a", "-json", "-o", _COLUMNS, job.id), drop_environment=DROP)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the last start of the job, or of each element of an array."""
        for record in records(completed):
            if base_id(text := record.get("jobid", "")) == job.id and "max_mem" in record:
                said = status(
                    record.get("stat", ""), record.get("exit_code", ""), record.get("exit_reason", "")
                )
                _, element = split_id(key(text))
                memory = size(record["max_mem"])
                yield Usage(
                    int(element) if element else None,
                    said.state,
                    exit_code=said.exit_code,
                    max_memory=memory,
                    total_memory=memory,
                    cpu_seconds=seconds(record.get("cpu_used", "")),
                    cpus=count(record.get("slots", "")),
                )

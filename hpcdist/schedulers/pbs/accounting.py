"""The last start of a job in PBS, by the fields of ``qstat -x -f``, where the server keeps a history.

``resources_used.mem`` is that of all processes of the job on all of its nodes, ``cput`` what they computed.
Sources: qstat(1B) and job attributes(7B); answers of an OpenPBS 23.06.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.accounting import Usage, count, moment, seconds, size
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.pbs.ends import Attributes, status
from hpcdist.schedulers.pbs.queries import command, element_of, key, records


class History:
    """The job, or each element of an array."""

    at_once: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield command("qstat", "-x", "-t", "-f", "-F", "dsv", job.id)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the last start of the job, or of each element of an array."""
        for job_id, record in records(completed.stdout).items():
            element = element_of(job_id, job.id)
            if element is not None or (key(job_id) == key(job.id) and record.get("array") != "True"):
                yield _usage(element, record)


def _usage(element: int | None, record: Attributes) -> Usage:
    said = status(record)
    ended = moment(record.get("obittime", "")) if said.state.is_final else None
    memory = size(record.get("resources_used.mem", ""))
    nodes = [part.partition("/")[0] for part in record.get("exec_host", "").split("+")]
    return Usage(
        element,
        said.state,
        # an element that never ran has the array's
        started=moment(record.get("stime", "")) if any(nodes) else None,
        ended=ended,
        exit_code=said.exit_code,
        hosts=tuple(dict.fromkeys(filter(None, nodes))),
        max_memory=memory,
        total_memory=memory,
        cpu_seconds=seconds(record.get("resources_used.cput", "")),
        cpus=count(record.get("resources_used.ncpus", "")),
        gpus=count(record.get("Resource_List.ngpus", "")),
    )

"""The starts of a job in Grid Engine's accounting: a record each; what qrsh started has others.

``ru_maxrss`` is that of the largest process on the first host, in KiB (getrusage(2)); 8.1.9 writes
``4.691KB`` for 4691 of them, others the number alone. ``cpu`` is that of what the script started on the first
host, so that of a job in a parallel environment, which may have more of them, is not taken.
Sources: accounting(5), answers of Debian's 8.1.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.accounting import Usage, count, moment, seconds, size
from hpcdist.schedulers.job import Job, JobState
from hpcdist.schedulers.sge.queries import bash, leading_number, qacct_records, submitted, task_end

# $1 id, $2 run directory: ids begin anew, so a day before its script is the earliest.
_ASK: Final = """\
written=$(stat -c %Y -- "$2/job.sh") || written=86400
exec qacct -b "$(date -d "@$((written - 86400))" +%Y%m%d%H%M)" -j "$1"
"""


class Records:
    """All starts of a job at once."""

    at_once: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield bash(_ASK, job.id, job.directory)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts of the job that was submitted first: what qrsh started was later."""
        found = [record for record in qacct_records(completed.stdout) if record.get("jobnumber") == job.id]
        first = min(map(submitted, found), default=0.0)
        for record in found:
            if submitted(record) == first and (usage := _usage(record)).started is not None:
                yield usage


def _usage(record: Mapping[str, str]) -> Usage:
    said, task = task_end(record, cancelled=False), leading_number(record.get("taskid", ""))
    most = size(record.get("ru_maxrss", ""))
    return Usage(
        int(task) if task else None,
        said.state if said else JobState.UNKNOWN,
        started=moment(record.get("start_time", "")),
        ended=moment(record.get("end_time", "")),
        exit_code=said.exit_code if said else None,
        max_memory=most and most * 1024,
        cpu_seconds=seconds(record.get("cpu", "")) if record.get("granted_pe") == "NONE" else None,
        cpus=count(record.get("slots", "")),
    )

"""When Slurm expects jobs to start: ``sbatch --test-only`` for a script, squeue for jobs that wait.

With ``SLURM_TIME_FORMAT=%s`` both write seconds since 1970, whatever zone this machine is in.
Sources: sbatch(1) and squeue(1) (``--start``, ``%S``); answers of a real 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import answers
from hpcdist.schedulers.base import Estimate
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.slurm.queries import DROP, KEEP, base_id, by_cluster, command

_EPOCH: Final = (("SLURM_TIME_FORMAT", "%s"),)
_SECONDS: Final = 15.0
_ANSWER: Final = re.compile(r"\bJob \d+ to start at (\S+) using\b")


class QueueStarts:
    """``sbatch --test-only`` and squeue."""

    def test(self, script: str) -> Command:
        """Return ``sbatch --test-only``, which gets the script by standard input and submits nothing."""
        argv = ("sbatch", "--test-only")
        return Command(argv, _EPOCH, DROP, KEEP, stdin=script, timeout=_SECONDS)

    def read_test(self, completed: Completed) -> Estimate:
        """Return what it printed, on standard error; else its last line, which is the controller's."""
        if completed.missing:
            return Estimate(why="there is no sbatch on this machine")
        found = _ANSWER.search(completed.stderr + completed.stdout)
        start = _moment(found[1]) if found and completed.ok else None
        if start is not None:
            return Estimate(start)
        lines = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
        return Estimate(why=lines[-1] if lines and not completed.timed_out else answers.why(completed))

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield squeue for the jobs that wait, one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            argv = ("squeue", "-h", "-t", "PD", "-j", ",".join(numbers), "-o", "%i|%S")
            yield command(*argv, cluster=cluster, timeout=_SECONDS)._replace(environment=_EPOCH)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return the earliest time of the parts of each job; ``N/A`` is none."""
        ids = {job.id.partition(";")[0]: job.id for job in jobs}
        found: dict[str, float] = {}
        for line in completed.stdout.splitlines():
            number, _, text = line.partition("|")
            job_id, start = ids.get(base_id(number)), _moment(text.strip())
            if job_id is not None and start is not None:
                found[job_id] = min(start, found.get(job_id, start))
        return found


def _moment(text: str) -> float | None:
    """Return seconds since 1970, also of a local time as a Slurm writes it that ignores the format."""
    if re.fullmatch(r"[0-9]{1,12}", text):
        return float(text)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None

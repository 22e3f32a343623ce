"""Submitting batch jobs to the test cluster and waiting for them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.slurm.process import until

ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}


def submit(cluster: Cluster, script: str, *options: str, cwd: Path, user: str = "hu1") -> str:
    """Give `script` to sbatch and return the job's id; what the job prints goes to `output` in `cwd`."""
    argv = ["sbatch", "--parsable", "--output=output", *options]
    return cluster.run(argv, user=user, cwd=cwd, input=script, check=True).stdout.strip()


def job_state(cluster: Cluster, job: str) -> str:
    """The job's state in Slurm's words; Slurm forgets a job five minutes after its end."""
    shown = cluster.run(["scontrol", "-o", "show", "job", job], user="root", check=True).stdout
    found = re.search(r"JobState=(\S+)", shown)
    assert found, shown
    return found[1]


def wait_state(cluster: Cluster, job: str, *states: str, seconds: float = 300) -> str:
    """Return the job's state once it is one of `states`."""
    until(lambda: job_state(cluster, job) in states, f"job {job} to be {' or '.join(states)}", seconds)
    return job_state(cluster, job)


def wait_end(cluster: Cluster, job: str, seconds: float = 300) -> str:
    """Return the state in which the job has ended."""
    return wait_state(cluster, job, *sorted(ENDED), seconds=seconds)

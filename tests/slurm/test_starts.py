"""When Slurm expects jobs to start, and what its associations have left, as hpcdist shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.slurm import jobs
from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]


@contextmanager
def limited(cluster: Cluster) -> Iterator[None]:
    """Give hu1 an account with 100 GPU-hours, for a time."""

    def account(*words: str) -> None:
        cluster.run(["sacctmgr", "-i", *words], user="root", check=True)

    account("add", "account", "physics")
    account("add", "user", "hu1", "account=physics")
    account("modify", "account", "physics", "set", "GrpTRESMins=gres/gpu=6000")
    try:
        yield
    finally:
        account("delete", "user", "hu1", "account=physics")
        account("delete", "account", "physics")


TWO = """\
name: two
run: {cmd: "true"}
framework: horovod
environment:
  resources: {gpu: {requests: 4}}
  replicas: {n_workers: 1, default_worker: {resources: {gpu: {requests: 4}}}}
batch: {walltime: "00:40:00", partition: a100}
"""


def test_a_job_starts_when_those_before_it_end_and_its_account_has_some_left(
    accounting_cluster: Cluster, workdir: Path
) -> None:
    cluster = accounting_cluster
    user = User(cluster, workdir)
    (workdir / "two.yml").write_text(TWO)
    blocker = jobs.submit(
        cluster, "#!/bin/bash\nsleep 600\n", "--exclusive", "-N1", "-pa100", "--time=30", cwd=workdir
    )
    jobs.wait_state(cluster, blocker, "RUNNING")
    end = cluster.run(["squeue", "-h", "-j", blocker, "-o", "%e"], env={"SLURM_TIME_FORMAT": "%s"}).stdout
    asked = user.hpcdist("plan", "two.yml", "--when", "--json")
    assert asked.returncode == 0, asked.stderr
    starts = {each["shape"]: each for each in json.loads(asked.stdout)["starts"]}
    assert {"half the walltime", "a quarter of the walltime", "partition gpu"} <= {*starts}
    assert datetime.fromisoformat(starts["as it is"]["start"]).timestamp() == int(end)
    earlier = datetime.fromisoformat(starts["half the replicas"]["start"]).timestamp()
    assert earlier < int(end)
    assert cluster.run(["squeue", "-h", "-o", "%i"]).stdout.split() == [blocker]

    with limited(cluster):
        balance = user.json("plan", "two.yml", "--balance", "--set", "batch.account=physics")["balance"]
        assert balance["left"] == [{"left": 100.0, "total": 100.0, "unit": "GPU-hours"}]
        submitted = user.hpcdist("submit", "two.yml", "--set", "batch.account=physics")
        left = "note: balance: 100 of 100 GPU-hours are left of physics, and the job may take 5.333"
        assert (submitted.returncode, submitted.stderr.splitlines()[-1:]) == (0, [left])

        def start() -> str | None:
            [state] = user.json("status", "two-1", "--when")
            found: str | None = state["start"]
            return found

        until(start, "the scheduler to plan the job")
        assert datetime.fromisoformat(start() or "").timestamp() == int(end)
        assert user.hpcdist("cancel", "two-1").returncode == 0
        user.hpcdist("wait", "two-1")

"""When Slurm expects jobs to start, and what its associations have left, as hpcdist shows it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.slurm import jobs
from tests.slurm.cluster import Cluster
from tests.slurm.users import User

pytestmark = pytest.mark.real

TWO = """\
name: two
run: {cmd: "true"}
framework: horovod
environment:
  resources: {gpu: {requests: 4}}
  replicas: {n_workers: 1, default_worker: {resources: {gpu: {requests: 4}}}}
batch: {walltime: "00:40:00", partition: a100}
"""


def test_a_job_starts_when_those_before_it_end_and_others_earlier(cluster: Cluster, workdir: Path) -> None:
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
    assert [*starts] == ["as it is", "half the walltime", "a quarter of the walltime", "half the replicas"]
    assert datetime.fromisoformat(starts["as it is"]["start"]).timestamp() == int(end)
    earlier = datetime.fromisoformat(starts["half the replicas"]["start"]).timestamp()
    assert earlier < int(end)
    assert cluster.run(["squeue", "-h", "-o", "%i"]).stdout.split() == [blocker]

    assert user.hpcdist("submit", "two.yml").returncode == 0
    [state] = user.json("status", "two-1", "--when")
    assert state["state"] == "pending"
    user.hpcdist("cancel", "two-1")

"""A node that crashed is left out of later jobs, on a real Slurm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.partitions import administer
from tests.slurm.users import User

pytestmark = pytest.mark.real


def node_of(user: User, run: str) -> str:
    """The node on which a run's job has begun."""
    user.await_log(run, "up")
    [job] = (user.directory / "runs" / run / "jobs").iterdir()
    return (job / "nodes").read_text().strip()


def test_a_node_that_crashed_twice_is_left_out_until_it_is_forgotten(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    batch: dict[str, Any] = {"partition": "a100", "requeue": False}
    crash = {"run": {"cmd": "echo up; sleep 600"}, "batch": {**batch, "directives": ["--nodelist=n1"]}}
    for run in ("crash-1", "crash-2"):
        assert user.hpcdist("submit", user.write("crash", crash)).returncode == 0
        assert node_of(user, run) == "n1"
        cluster.crash("n1")
        assert user.hpcdist("wait", run).returncode != 0
        assert user.json("status", run)[0]["state"] == "node_fail"
        cluster.restore("n1")
    [found] = user.json("nodes")
    assert (found["node"], found["site"], found["is_suspect"]) == ("n1", "testbed", True)
    assert [(one["kind"], one["run"]) for one in found["evidence"]] == [
        ("lost", "crash-2"),
        ("lost", "crash-1"),
    ]

    other = {"run": {"cmd": "echo up"}, "batch": {**batch, "exclude_bad_nodes": True}}
    file = user.write("other", other)
    assert "excluded nodes: n1 (hpcdist nodes)\n" in user.hpcdist("plan", file).stdout
    done = user.hpcdist("submit", file, "--wait")
    assert (done.returncode, "warning: excluded as suspect: n1 (1.00: lost " in done.stderr) == (0, True)
    assert node_of(user, "other-1") == "n2"

    assert user.hpcdist("nodes", "forget", "n1").stdout == "forgotten: n1\n"
    assert user.json("nodes") == []
    done = user.hpcdist("submit", file, "--wait", "--set", "batch.exclude_nodes=[n2]")
    assert (done.returncode, "suspect" in done.stderr) == (0, False)
    assert node_of(user, "other-2") == "n1"

    done = user.hpcdist("submit", file, "--set", "batch.exclude_nodes=[nowhere]")
    assert done.returncode == 5
    assert "Invalid node name" in done.stderr
    assert "`hpcdist nodes forget NAME`" in done.stderr


TRAIN = """\
import os, pathlib, socket, time
from hpcdist_tracking import log_metrics
own = 0.15 if socket.gethostname() == "n2" else 0.01
for step in range(1, 41):
    begun = time.time()
    time.sleep(own)
    log_metrics(step=step, compute_seconds=time.time() - begun, all_ranks=True)
pathlib.Path("done." + os.environ["HPCDIST_RANK"]).touch()
while len(list(pathlib.Path().glob("done.*"))) < 4:
    time.sleep(0.1)
if os.environ["HPCDIST_RANK"] == "2":
    raise SystemExit(7)
time.sleep(30)
"""
"""On one node each step takes far longer; a rank fails when all have done theirs."""


def test_the_slow_node_and_the_first_task_to_fail_are_named(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    (user.directory / "train.py").write_text(TRAIN)
    environment = {"replicas": {"n_workers": 3, "per_node": 1}}
    batch = {"partition": "gpu"}
    command = {"run": {"cmd": "python3 train.py"}, "environment": environment, "batch": batch}
    file = user.write("slow", {"framework": "pytorch", **command})
    assert user.hpcdist("submit", file, "--wait").returncode == 7
    found = user.json("describe", "slow-1")
    slowness, failure = found["slowness"], found["first_failure"]
    assert (slowness["by"], [each["host"] for each in slowness["slow"]]) == ("compute_seconds", ["n2"])
    assert (failure["rank"], failure["host"], failure["code"]) == (2, "n3", 7)
    assert "rank 1 on n2 is slower than its peers by" in user.hpcdist("describe", "slow-1").stdout
    [node] = user.json("nodes")
    assert (node["node"], [one["kind"] for one in node["evidence"]]) == ("n2", ["slow"])


def test_followers_that_wait_do_without_a_node_that_went_bad(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    lost = 'echo "lost $SLURM_JOB_ID $(date +%s) $(uname -n)" >>"$HPCDIST_RUN_DIR/events"'
    command = f"{lost}; echo ran on $(uname -n); [ $HPCDIST_ATTEMPT = 1 ] || sleep 600"
    restart = {"by": "follow", "max": 1, "notice": "1m"}
    experiment = {"environment": {"restart": restart}, "run": {"cmd": command}, "batch": {"walltime": "10m"}}
    done = user.hpcdist("submit", user.write("chain", experiment))
    assert done.returncode == 0, done.stderr
    user.await_log("chain-1", "ran on")
    [job] = (workdir / "runs/chain-1/jobs").iterdir()
    administer(cluster, "scancel", "--batch", "--signal=URG", job.name)  # as the clock before the limit
    assert user.hpcdist("wait", "chain-1").returncode == 0, user.log("chain-1")
    first, second = re.findall(r"ran on (\S+)", user.hpcdist("logs", "chain-1").stdout)
    assert first != second

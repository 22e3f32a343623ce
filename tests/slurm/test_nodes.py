"""A node that crashed is left out of later jobs, on a real Slurm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.partitions import administer
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]


def node_of(user: User, run: str) -> str:
    """The node on which a run's job has begun."""
    user.await_log(run, "up")
    [job] = (user.directory / "runs" / run / "jobs").iterdir()
    return (job / "nodes").read_text().strip()


def test_a_node_that_crashed_twice_is_left_out(cluster: Cluster, workdir: Path) -> None:
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
    [found] = user.json("doctor", "--nodes")
    assert (found["node"], found["site"], found["is_suspect"]) == ("n1", "testbed", True)
    assert [(one["kind"], one["run"]) for one in found["evidence"]] == [
        ("lost", "crash-2"),
        ("lost", "crash-1"),
    ]

    other = {"run": {"cmd": "echo up"}, "batch": {**batch, "exclude_bad_nodes": True}}
    file = user.write("other", other)
    assert "excluded nodes: n1 (hpcdist doctor --nodes)\n" in user.hpcdist("plan", file).stdout
    done = user.hpcdist("submit", file, "--wait")
    assert (done.returncode, "warning: excluded as suspect: n1 (lost " in done.stderr) == (0, True)
    assert node_of(user, "other-1") == "n2"

    own = ("--set", "batch.exclude_bad_nodes=false", "--set", "batch.exclude_nodes=[n2]")
    done = user.hpcdist("submit", file, "--wait", *own)
    assert (done.returncode, "the job may get suspect nodes: n1" in done.stderr) == (0, True)
    assert node_of(user, "other-2") == "n1"

    done = user.hpcdist("submit", file, "--set", "batch.exclude_nodes=[nowhere]")
    assert done.returncode == 5
    assert "Invalid node name" in done.stderr
    assert "`--set batch.exclude_bad_nodes=false`" in done.stderr


def test_the_first_task_to_fail_is_named(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    command = "sleep 2; [ $HPCDIST_RANK != 2 ] || exit 7; sleep 30"
    environment = {"replicas": {"n_workers": 3, "per_node": 1}}
    experiment = {"framework": "pytorch", "run": {"cmd": command}, "environment": environment}
    file = user.write("first", {**experiment, "batch": {"partition": "gpu"}})
    assert user.hpcdist("submit", file, "--wait").returncode == 7
    failure = user.json("describe", "first-1")["first_failure"]
    assert (failure["rank"], failure["host"], failure["code"]) == (2, "n3", 7)
    evidence = "rank 2 on n3 was the first to fail, with exit code 7"
    assert evidence in user.hpcdist("describe", "first-1").stdout
    assert user.hpcdist("report", "first-1").returncode == 0
    assert evidence in (user.directory / "report.html").read_text()


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

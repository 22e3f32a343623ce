"""A node that crashed is left out of later jobs, on a real Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
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

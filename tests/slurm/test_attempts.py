"""What is known of each attempt of a job that Slurm started twice."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = pytest.mark.real

COMMAND = """\
echo up
[[ $SLURM_RESTART_COUNT ]] || sleep 600
python3 -c "import time; held = bytearray(200 << 20); time.sleep(3)"
[[ -e again ]] || { : >again; exit 3; }
"""


def kept(user: User, run: str) -> bool:
    """Export a run, and return whether its accounting is kept: that lags behind by some seconds."""
    assert user.hpcdist("export", run, "--csv", "x.csv").returncode == 0
    return (user.directory / "runs" / run / "accounting.json").exists()


def test_a_job_that_was_requeued(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    experiment = {"run": {"cmd": COMMAND}, "batch": {"requeue": True}, "environment": {"max_restarts": 1}}
    assert user.hpcdist("submit", user.write("again", experiment)).returncode == 0
    user.await_log("again-1", "up")
    [run] = user.json("status", "again-1")
    user.cluster.run(["scontrol", "requeue", run["job_id"]], check=True)
    assert user.hpcdist("wait", "again-1").returncode == 0
    until(partial(kept, user, "again-1"), "sacct to know the last start")
    found: list[dict[str, Any]] = user.json("describe", "again-1")["attempts"]
    assert [(each["attempt"], each["state"], each["exit_code"]) for each in found] == [
        ("0.0", "requeued", 143),
        ("1.0", "failed", 3),
        ("1.1", "completed", 0),
    ]
    assert all(len(each["hosts"]) == 1 and each["gpu_hours"] == 0.0 for each in found)
    assert all(each["queued_at"] <= each["started_at"] <= each["ended_at"] for each in found)
    assert found[0]["ended_at"] <= found[1]["queued_at"] < found[1]["started_at"]
    assert [each["elapsed_seconds"] >= 3 for each in found[1:]] == [True, True]
    assert [each["max_memory"] for each in found[1:]] == [found[-1]["max_memory"]] * 2
    assert 200 << 20 < found[-1]["max_memory"] < 300 << 20
    # What is kept holds when Slurm does not answer any more.
    offline = {"PATH": "/usr/bin:/bin", "SLURM_CONF": "/nowhere"}
    assert user.json("describe", "again-1")["attempts"] == found
    done = user.hpcdist("describe", "again-1", env=offline)
    assert " MiB " in done.stdout


@pytest.mark.extended
def test_elements_of_an_array(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    command = "[[ $SLURM_ARRAY_TASK_ID == 1 ]] || exit 4; python3 -c 'held = bytearray(100 << 20); input()'"
    file = user.write("array", {"run": {"cmd": f"sleep 3 | {{ {command}; }}"}, "batch": {"array": "0-1"}})
    assert user.hpcdist("submit", file, "--wait").returncode == 4
    until(partial(kept, user, "array-1"), "sacct to know the ends")
    found = {each["job_id"][-2:]: each for each in user.json("describe", "array-1")["attempts"]}
    assert {name: (each["state"], each["exit_code"]) for name, each in found.items()} == {
        "_0": ("failed", 4),
        "_1": ("failed", 1),
    }
    assert 100 << 20 < found["_1"]["max_memory"] < 200 << 20


@pytest.mark.extended
def test_the_end_on_a_lost_node(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    command = "echo up; [[ $SLURM_RESTART_COUNT ]] || sleep 600"
    file = user.write("lost", {"run": {"cmd": command}, "batch": {"requeue": True}})
    assert user.hpcdist("submit", file).returncode == 0
    user.await_log("lost-1", "up")
    [job] = (user.directory / "runs" / "lost-1" / "jobs").iterdir()
    node = (job / "nodes").read_text().strip()
    time.sleep(1)  # what the times of the first attempt are in
    user.cluster.crash(node)
    assert user.hpcdist("wait", "lost-1").returncode == 0
    until(partial(kept, user, "lost-1"), "sacct to know the last start")
    first, last = user.json("describe", "lost-1")["attempts"]
    assert (first["state"], first["exit_code"], first["hosts"]) == ("node_fail", None, [node])
    assert (last["state"], last["exit_code"], last["hosts"] != [node]) == ("completed", 0, True)
    assert first["started_at"] < first["ended_at"] <= last["queued_at"] <= last["started_at"]

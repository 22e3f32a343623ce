"""Trainings that outlive their time limit, a more important job, a node and a failure, on a real Slurm."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = pytest.mark.real

COUNT = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
folder, steps = os.environ["HPCDIST_CHECKPOINTS"], int(sys.argv[1])
file = os.path.join(folder, "step")
step = int(open(file).read()) if os.path.exists(file) else 0
print("attempt", os.environ["HPCDIST_ATTEMPT"], "from", step, flush=True)
while step < steps:
    time.sleep(0.5)
    step += 1
    with open(file + ".new", "w") as new:
        new.write(str(step))
    os.replace(file + ".new", file)
print("trained", step, flush=True)
"""
"""A training that writes a checkpoint each step, whole, and goes on from the last one; TERM ends it."""


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    (workdir / "count.py").write_text(COUNT)
    return User(cluster, workdir)


def submitted(user: User, name: str, steps: int, **changes: Any) -> str:
    """Submit a training of so many half seconds that may be restarted; return its run."""
    batch = {"walltime": "10m", **changes.pop("batch", {})}
    experiment = {
        "run": {"cmd": f"{sys.executable} count.py {steps}"},
        "environment": {"restart": changes},
        "batch": batch,
    }
    done = user.hpcdist("submit", user.write(name, experiment))
    assert done.returncode == 0, done.stderr
    return f"{name}-1"


def events(user: User, run: str) -> list[tuple[str, str]]:
    if not (user.directory / "runs" / run / "events").exists():
        return []
    text = (user.directory / "runs" / run / "events").read_text()
    return [(line.split()[0], line.split()[3]) for line in text.splitlines()]


def attempts(user: User, run: str) -> list[str]:
    return [line for line in user.log(run).splitlines() if line.startswith("attempt")]


def test_a_training_outlives_its_time_limit(user: User) -> None:
    run = submitted(user, "long", 100, notice="25s", batch={"walltime": "1m"})
    assert user.hpcdist("wait", run).returncode == 0
    assert "trained 100" in user.log(run)
    first, second = attempts(user, run)
    assert (first, second.split()[:2]) == ("attempt 0 from 0", ["attempt", "1"])
    assert 40 < int(second.split()[-1]) < 100
    assert events(user, run) == [
        ("started", "0"),
        ("notice", "USR1"),
        ("again", "timeout"),
        ("requeued", "138"),
        ("started", "1"),
        ("over", "completed"),
        ("ended", "0"),
    ]
    found = user.json("describe", run)["attempts"]
    assert [(one["state"], one["exit_code"]) for one in found] == [("requeued", 138), ("completed", 0)]


def test_a_cancelled_training_is_not_put_into_the_queue_again(user: User) -> None:
    for number, cancel in enumerate(("hpcdist", "scancel"), 1):
        run = submitted(user, f"unwanted{number}", 1000)
        user.await_log(run, "attempt 0")
        [job] = user.json("status", run)
        if cancel == "hpcdist":
            assert user.hpcdist("cancel", run).returncode == 0
        else:
            user.cluster.run(["scancel", job["job_id"]], user=user.name, check=True)
        user.hpcdist("wait", run)
        [job] = user.json("status", run)
        assert (job["state"], attempts(user, run)) == ("cancelled", ["attempt 0 from 0"])


def test_a_training_that_is_cancelled_before_its_limit_is_not_put_into_the_queue_again(user: User) -> None:
    command = "trap : USR1; echo up; for _ in {1..600}; do sleep 0.1; done"
    experiment = {
        "run": {"cmd": f"bash -c {shlex.quote(command)}"},
        "environment": {"restart": {"notice": "30s"}},
        "batch": {"walltime": "1m"},
    }
    assert user.hpcdist("submit", user.write("late", experiment)).returncode == 0
    until(lambda: ("notice", "USR1") in events(user, "late-1"), "the notice", 90)
    assert user.hpcdist("cancel", "late-1").returncode == 0
    user.hpcdist("wait", "late-1")
    time.sleep(10)
    [job] = user.json("status", "late-1")
    assert (job["state"], [what for what, _ in events(user, "late-1")].count("started")) == ("cancelled", 1)


def test_a_training_outlives_its_first_node_and_a_failure(user: User) -> None:
    run = submitted(user, "lost", 60)
    user.await_log(run, "attempt 0")
    time.sleep(3)
    [job] = (user.directory / "runs" / run / "jobs").iterdir()
    user.cluster.crash((job / "nodes").read_text().strip())
    user.await_log(run, "attempt 1")
    user.cluster.run(["pkill", "-KILL", "-f", "count.py"], check=True)
    assert user.hpcdist("wait", run).returncode == 0
    assert "trained 60" in user.log(run)
    assert [line.split()[1] for line in attempts(user, run)] == ["0", "1", "2"]
    assert [int(line.split()[-1]) > 0 for line in attempts(user, run)] == [False, True, True]


@contextmanager
def scavenging(cluster: Cluster, mode: str, grace: int) -> Iterator[str]:
    """A partition whose jobs make room for those of the others."""
    words = f"PartitionName=scavenge Nodes=ALL PriorityTier=0 PreemptMode={mode} GraceTime={grace}"
    cluster.run(["scontrol", "create", *words.split()], user="slurm", cwd=Path("/"), check=True)
    try:
        yield "scavenge"
    finally:
        cluster.heal()
        cluster.run(["scontrol", "delete", "PartitionName=scavenge"], user="slurm", cwd=Path("/"), check=True)


@pytest.mark.parametrize(("mode", "grace"), [("REQUEUE", 0), ("CANCEL", 15), ("REQUEUE", 15)])
def test_a_training_outlives_a_more_important_job(user: User, mode: str, grace: int) -> None:
    with scavenging(user.cluster, mode, grace) as partition:
        run = submitted(user, f"humble{grace}", 40, batch={"partition": partition})
        user.await_log(run, "attempt 0")
        time.sleep(3)
        [job] = (user.directory / "runs" / run / "jobs").iterdir()
        node = (job / "nodes").read_text().strip()
        words = ["sbatch", "--exclusive", "-p", "all", "-w", node, "-t", "2", "--wrap", "sleep 12"]
        user.cluster.run(words, user=user.name, cwd=user.directory, check=True)
        until(lambda: "attempt 1" in user.log(run), "the training to begin again", 120)
        assert user.hpcdist("wait", run).returncode == 0
        assert "trained 40" in user.log(run)
        assert [int(line.split()[-1]) > 0 for line in attempts(user, run)] == [False, True]


def test_followers_go_on_and_the_rest_of_them_is_cancelled(user: User) -> None:
    run = submitted(user, "chain", 100, by="follow", max=3, notice="25s", batch={"walltime": "1m"})
    assert user.hpcdist("wait", run).returncode == 0
    assert "trained 100" in user.log(run)
    assert [line.split()[1] for line in attempts(user, run)] == ["0", "1"]
    [found] = user.json("status", run)
    assert (found["state"], found["exit_code"]) == ("completed", 0)
    until(lambda: not queued(user), "the other followers to be cancelled", 30)
    assert [each["state"] for each in user.json("describe", run)["attempts"]] == ["failed", "completed"]
    assert user.hpcdist("list").stdout.count("completed") == 1


def queued(user: User) -> str:
    done = user.cluster.run(["squeue", "-h", "-u", user.name], user=user.name, check=True)
    return done.stdout


def needs(nodes: int) -> dict[str, Any]:
    """So many replicas, each on a node of its own."""
    whole = {"resources": {"cpu": {"requests": 4}}}
    return {**whole, "replicas": {"n_workers": nodes - 1, "default_worker": whole, "per_node": 1}}


def test_a_spare_node_takes_the_place_of_a_lost_one(user: User) -> None:
    experiment = {
        "framework": "pytorch",
        "run": {"cmd": f"[ $RANK = 0 ] || exec sleep 30; exec {sys.executable} count.py 50"},
        "environment": {**needs(2), "restart": {"spare_nodes": 1}},
        "batch": {"walltime": "10m"},
    }
    done = user.hpcdist("submit", user.write("spare", experiment))
    assert done.returncode == 0, done.stderr
    user.await_log("spare-1", "attempt 0")
    time.sleep(3)
    [job] = (user.directory / "runs" / "spare-1" / "jobs").iterdir()
    first, second = (job / "nodes").read_text().split()
    user.cluster.crash(second)
    assert user.hpcdist("wait", "spare-1").returncode == 0
    third = (job / "nodes").read_text().split()
    assert (third[0], third[1] != second) == (first, True)
    assert [what for what, _ in events(user, "spare-1")] == ["started", "lost", "restarted", "over", "ended"]


BROKEN = """\
[ -e bad ] || [ $RANK = 0 ] || uname -n >bad
sleep 1
touch $HPCDIST_CHECKPOINTS/$HPCDIST_ATTEMPT
[ "$(<bad)" != "$(uname -n)" ] || exit 3
"""


def test_a_node_on_which_tasks_fail_is_left_out(user: User) -> None:
    experiment = {
        "framework": "pytorch",
        "run": {"cmd": BROKEN},
        "environment": {**needs(2), "restart": {}},
        "batch": {"walltime": "10m"},
    }
    done = user.hpcdist("submit", user.write("bad", experiment))
    assert done.returncode == 0, done.stderr
    assert user.hpcdist("wait", "bad-1").returncode == 0
    node = (user.directory / "bad").read_text().strip()
    assert events(user, "bad-1") == [
        ("started", "0"),
        ("blamed", node),
        ("restarted", "3"),
        ("blamed", node),
        ("again", "node_failure"),
        ("requeued", "3"),
        ("started", "1"),
        ("over", "completed"),
        ("ended", "0"),
    ]
    [job] = (user.directory / "runs" / "bad-1" / "jobs").iterdir()
    assert node in (job / "nodes.0").read_text().split()
    assert node not in (job / "nodes.1").read_text().split()

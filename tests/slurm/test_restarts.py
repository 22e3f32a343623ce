"""Trainings that outlive their time limit, a more important job, a node and a failure, on a real Slurm."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.partitions import administer, partition
from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, User

pytestmark = [pytest.mark.real, pytest.mark.long]

UNANSWERED = """\
#!/bin/bash
echo >>calls
said=$(/usr/bin/sbatch "$@") || exit
(($(wc -l <calls) == 2)) || { echo "$said"; exit; }
echo "sbatch: error: Socket timed out on send/recv operation" >&2
exit 1
"""
KILLED = """\
#!/bin/bash
echo >>calls
/usr/bin/sbatch "$@" || exit
(($(wc -l <calls) != 2)) || kill -KILL "$PPID"
"""
"""Of three jobs the second is submitted, and nobody hears of it."""

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


def attempts(user: User, run: str) -> list[str]:
    return [line for line in user.log(run).splitlines() if line.startswith("attempt")]


def cut_short(user: User) -> str:
    """Submit a training whose limit is brought forward, and comes before any notice; return its run."""
    experiment = {
        "run": {"cmd": "echo up; [ $HPCDIST_ATTEMPT = 1 ] || exec sleep 600"},
        "environment": {"restart": {}},
        "batch": {"walltime": "10m"},
    }
    assert user.hpcdist("submit", user.write("cut", experiment)).returncode == 0
    user.await_log("cut-1", "up\n")
    [job] = (user.directory / "runs/cut-1/jobs").iterdir()
    administer(user.cluster, "scontrol", "update", f"JobId={job.name}", "EndTime=now")
    return "cut-1"


def test_trainings_outlive_their_time_limits(user: User) -> None:
    run, cut = submitted(user, "long", 100, notice="25s", batch={"walltime": "1m"}), cut_short(user)
    assert user.hpcdist("wait", run).returncode == 0
    assert "trained 100" in user.log(run)
    first, second = attempts(user, run)
    assert (first, second.split()[:2]) == ("attempt 0 from 0", ["attempt", "1"])
    assert 40 < int(second.split()[-1]) < 100
    assert user.events(run) == [
        ("started", "0"),
        ("notice", "USR1"),
        ("again", "timeout"),
        ("requeued", "138"),
        ("started", "1"),
        ("over", "completed"),
        ("ended", "0"),
    ]
    found = user.json("describe", run)["attempts"]
    assert [(one["number"], one["state"], one["exit_code"]) for one in found] == [
        (0, "requeued", 138),
        (1, "completed", 0),
    ]
    assert (found[0]["lost_seconds"] is not None, found[1]["lost_seconds"]) == (True, None)
    shown = [user.hpcdist("logs", run, "--attempt", str(number)).stdout for number in (0, 1)]
    assert "".join(shown) == user.hpcdist("logs", run).stdout
    assert [("attempt 0" in part, "attempt 1 from" in part) for part in shown] == [
        (True, False),
        (False, True),
    ]
    assert user.hpcdist("wait", cut).returncode == 0
    assert "DUE TO TIME LIMIT" in user.log(cut)
    found = user.json("describe", cut)["attempts"]
    assert [(one["state"], one["why"]) for one in found] == [
        ("requeued", "timeout"),
        ("completed", "completed"),
    ]


def test_a_cancelled_training_is_not_put_into_the_queue_again(user: User) -> None:
    runs = [submitted(user, f"unwanted{number}", 1000) for number in (1, 2)]
    for run in runs:
        user.await_log(run, "attempt 0")
    assert user.hpcdist("cancel", runs[0]).returncode == 0
    [job] = user.json("status", runs[1])
    user.cluster.run(["scancel", job["job_id"]], user=user.name, check=True)
    for run in runs:
        user.hpcdist("wait", run)
        [job] = user.json("status", run)
        assert (job["state"], attempts(user, run)) == ("cancelled", ["attempt 0 from 0"])


@pytest.mark.extended
def test_a_training_is_cancelled_between_two_attempts(user: User) -> None:
    with partition(user.cluster, "PreemptMode=OFF") as name:
        chain = submitted(user, "chained", 1000, by="follow", max=2, batch={"partition": name})
        again = submitted(user, "requeued", 1000, batch={"partition": name})
        for run in (chain, again):
            user.await_log(run, "attempt 0")
        administer(user.cluster, "scontrol", "update", f"PartitionName={name}", "State=DOWN")
        for run, words in ((chain, ["scancel"]), (again, ["scontrol", "requeue"])):
            [job] = (user.directory / "runs" / run / "jobs").iterdir()
            administer(user.cluster, *words, job.name)
        until(lambda: set(queued(user).split()) == {"PENDING"}, "both to wait for another attempt", 60)
        for run in (chain, again):
            assert user.hpcdist("cancel", run).returncode == 0
        administer(user.cluster, "scontrol", "update", f"PartitionName={name}", "State=UP")
        for run in (chain, again):
            user.hpcdist("wait", run)
            [found] = user.json("status", run)
            assert (found["state"], attempts(user, run)) == ("cancelled", ["attempt 0 from 0"])
        assert queued(user) == ""


@pytest.mark.extended
def test_a_follower_whose_submission_is_not_answered_is_submitted_once(user: User) -> None:
    (user.directory / "bin").mkdir()
    words = {"PATH": f"{user.directory}/bin:{ENVIRONMENT['PATH']}"}
    experiment = {
        "run": {"cmd": "sleep 600"},
        "environment": {"restart": {"by": "follow", "max": 2}},
        "batch": {"walltime": "20m", "directives": ["--hold"]},
    }
    file = user.write("late", experiment)
    for script, code in ((UNANSWERED, 0), (KILLED, 137)):
        (user.directory / "bin/sbatch").write_text(script)
        (user.directory / "bin/sbatch").chmod(0o755)
        (user.directory / "calls").unlink(missing_ok=True)
        done = user.hpcdist("submit", file, "--again", env=words)
        assert done.returncode in (code, -9 if code else 0), done.stderr
        if code:
            again = user.hpcdist("submit", file)
            assert "late-2 of the same experiment has 2 of 3 jobs; its submission goes on now" in again.stderr
        assert len(queued(user).split()) == 3
        administer(user.cluster, "scancel", "-u", user.name)
        until(lambda: not queued(user), "the jobs to be cancelled", 60)


@pytest.mark.extended
def test_a_training_that_is_cancelled_before_its_limit_is_not_put_into_the_queue_again(user: User) -> None:
    command = "trap : USR1; echo up; for _ in {1..600}; do sleep 0.1; done"
    experiment = {
        "run": {"cmd": f"bash -c {shlex.quote(command)}"},
        "environment": {"restart": {"notice": "30s"}},
        "batch": {"walltime": "1m"},
    }
    assert user.hpcdist("submit", user.write("late", experiment)).returncode == 0
    until(lambda: ("notice", "USR1") in user.events("late-1"), "the notice", 90)
    assert user.hpcdist("cancel", "late-1").returncode == 0
    user.hpcdist("wait", "late-1")
    assert queued(user) == ""
    [job] = user.json("status", "late-1")
    assert (job["state"], [what for what, _ in user.events("late-1")].count("started")) == ("cancelled", 1)


@pytest.mark.extended
def test_a_training_outlives_its_first_node_and_a_failure(user: User) -> None:
    run = submitted(user, "lost", 60)
    trained(user, run)
    [job] = (user.directory / "runs" / run / "jobs").iterdir()
    user.cluster.crash((job / "nodes").read_text().strip(), noticed=False)
    user.await_log(run, "attempt 1 from")
    user.cluster.run(["pkill", "-KILL", "-f", "count.py"], check=True)
    assert user.hpcdist("wait", run).returncode == 0
    assert "trained 60" in user.log(run)
    assert [line.split()[1] for line in attempts(user, run)] == ["0", "1", "2"]
    assert [int(line.split()[-1]) > 0 for line in attempts(user, run)] == [False, True, True]


def trained(user: User, run: str) -> None:
    """Return when a training has written a checkpoint."""
    file = user.directory / "runs" / run / "checkpoints" / "step"
    until(file.exists, f"a checkpoint of {run}")


@pytest.mark.extended
@pytest.mark.parametrize(("mode", "grace"), [("REQUEUE", 0), ("CANCEL", 15), ("REQUEUE", 15)])
def test_a_training_outlives_a_more_important_job(user: User, mode: str, grace: int) -> None:
    with partition(user.cluster, f"PriorityTier=0 PreemptMode={mode} GraceTime={grace}") as name:
        run = submitted(user, f"humble{grace}", 40, batch={"partition": name})
        trained(user, run)
        [job] = (user.directory / "runs" / run / "jobs").iterdir()
        node = (job / "nodes").read_text().strip()
        words = ["sbatch", "--exclusive", "-p", "all", "-w", node, "-t", "2", "--wrap", "sleep 12"]
        user.cluster.run(words, user=user.name, cwd=user.directory, check=True)
        until(lambda: "attempt 1" in user.log(run), "the training to begin again", 120)
        assert user.hpcdist("wait", run).returncode == 0
        assert "trained 40" in user.log(run)
        assert [int(line.split()[-1]) > 0 for line in attempts(user, run)] == [False, True]


@pytest.mark.extended
def test_followers_go_on_and_the_rest_of_them_is_cancelled(user: User) -> None:
    run = submitted(user, "chain", 100, by="follow", max=3, notice="25s", batch={"walltime": "1m"})
    assert user.hpcdist("wait", run).returncode == 0
    assert "trained 100" in user.log(run)
    assert [line.split()[1] for line in attempts(user, run)] == ["0", "1"]
    [found] = user.json("status", run)
    assert (found["state"], found["exit_code"]) == ("completed", 0)
    until(lambda: not queued(user), "the other followers to be cancelled", 30)
    assert [each["state"] for each in user.json("describe", run)["attempts"]] == ["failed", "completed"]
    assert user.hpcdist("status", "--offline").stdout.count("completed") == 1


def queued(user: User) -> str:
    """The states of the user's jobs that have not ended, a line each."""
    done = user.cluster.run(["squeue", "-h", "-u", user.name, "-o", "%T"], user=user.name, check=True)
    return done.stdout


def needs(nodes: int) -> dict[str, Any]:
    """So many replicas, each on a node of its own."""
    whole = {"resources": {"cpu": {"requests": 4}}}
    return {**whole, "replicas": {"n_workers": nodes - 1, "default_worker": whole, "per_node": 1}}


@pytest.mark.extended
def test_a_spare_node_takes_the_place_of_a_lost_one(user: User) -> None:
    experiment = {
        "framework": "pytorch",
        "run": {"cmd": f"[ $RANK = 0 ] || exec sleep 30; exec {sys.executable} count.py 50"},
        "environment": {**needs(2), "restart": {"spare_nodes": 1}},
        "batch": {"walltime": "10m"},
    }
    done = user.hpcdist("submit", user.write("spare", experiment))
    assert done.returncode == 0, done.stderr
    trained(user, "spare-1")
    [job] = (user.directory / "runs" / "spare-1" / "jobs").iterdir()
    first, second = (job / "nodes").read_text().split()
    user.cluster.crash(second)
    assert user.hpcdist("wait", "spare-1").returncode == 0
    found = [one["hosts"] for one in user.json("describe", "spare-1")["attempts"]]
    assert found[0] == [first, second]
    assert (found[1][0], found[1][1] != second) == (first, True)
    assert [what for what, _ in user.events("spare-1")] == ["started", "lost", "restarted", "over", "ended"]


BROKEN = """\
echo "a rank of attempt $HPCDIST_ATTEMPT"
until [ $HPCDIST_ATTEMPT != 1 ] || [ -e down ]; do sleep 0.1; done
[ -e bad ] || [ $RANK = 0 ] || uname -n >bad
sleep 1
touch $HPCDIST_CHECKPOINTS/$HPCDIST_ATTEMPT
[ "$(<bad)" != "$(uname -n)" ] || exit 3
"""


@contextmanager
def controller_down(cluster: Cluster) -> Iterator[None]:
    """Meanwhile no command of Slurm gets an answer; it keeps its state."""
    cluster.run(["pkill", "-x", "slurmctld"], user="root", check=True)
    until(lambda: cluster.run(["pgrep", "-x", "slurmctld"], user="root").returncode, "slurmctld to end")
    yield
    cluster.run(["slurmctld"], user="root", check=True)
    until(cluster.states, "slurmctld to answer")


@pytest.mark.extended
def test_a_node_on_which_tasks_fail_is_left_out_though_the_controller_is_down_at_the_requeue(
    user: User,
) -> None:
    experiment = {
        "framework": "pytorch",
        "run": {"cmd": BROKEN},
        "environment": {**needs(2), "restart": {}},
        "batch": {"walltime": "10m"},
    }
    done = user.hpcdist("submit", user.write("bad", experiment))
    assert done.returncode == 0, done.stderr
    user.await_log("bad-1", "a rank of attempt 1")
    until(lambda: user.log("bad-1").count("a rank of attempt 1") == 2, "srun to have started both")
    with controller_down(user.cluster):
        (user.directory / "down").touch()
        user.await_log("bad-1", "Unable to contact slurm controller")
    assert user.hpcdist("wait", "bad-1").returncode == 0
    node = (user.directory / "bad").read_text().strip()
    assert user.events("bad-1") == [
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


@pytest.mark.extended
def test_a_run_goes_on_with_another_number_of_nodes_and_a_copy_of_it_too(user: User) -> None:
    experiment = {
        "framework": "pytorch",
        "run": {"cmd": "echo on $WORLD_SIZE; echo $RANK > $HPCDIST_CHECKPOINTS/$RANK; [ $WORLD_SIZE = 2 ]"},
        "environment": needs(1),
        "batch": {"walltime": "5m"},
    }
    assert user.hpcdist("submit", user.write("grown", experiment), "--wait").returncode == 1
    done = user.hpcdist("resume", "grown-1", "--nodes", "2")
    assert done.returncode == 0, done.stderr
    assert user.hpcdist("wait", "grown-1").returncode == 0
    found = user.json("describe", "grown-1")["attempts"]
    assert [(one["number"], one["state"], len(one["hosts"])) for one in found] == [
        (0, "failed", 1),
        (1, "completed", 2),
    ]
    done = user.hpcdist(
        "restart",
        "--copy",
        "grown-1",
        "--set",
        "run.cmd=ls $HPCDIST_CHECKPOINTS; exit $((1 - HPCDIST_RESUMED))",
    )
    assert done.returncode == 0, done.stderr
    assert user.hpcdist("wait", "grown-2").returncode == 0
    assert "0\n1\n" in user.log("grown-2")


def element_states(user: User, run: str) -> dict[str, list[tuple[str, str]]]:
    """Return for each element of an array how its attempts ended."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in user.json("describe", run)["attempts"]:
        found.setdefault(each["job_id"].rpartition("_")[2], []).append((each["state"], each["why"] or ""))
    return found


@pytest.mark.extended
def test_each_element_of_an_array_goes_on_by_itself(user: User) -> None:
    whole = {"resources": {"cpu": {"requests": 16}}}
    broken = "[ $HPCDIST_ATTEMPT.${HPCDIST_JOB_ID##*_} != 0.3 ] || exit 93"
    experiment = {
        "run": {"cmd": f"{broken}; exec {sys.executable} count.py 40"},
        "environment": {**whole, "restart": {"notice": "1m", "stop_on_exit": [93]}},
        "batch": {"walltime": "10m", "array": "1-4%3"},
    }
    assert user.hpcdist("submit", user.write("elements", experiment)).returncode == 0
    folder = user.directory / "runs/elements-1"
    steps = [folder / f"checkpoints/{number}/step" for number in (1, 2)]
    until(lambda: all(step.exists() for step in steps), "checkpoints of two elements")
    [job] = {each.name.partition("_")[0] for each in (folder / "jobs").iterdir()}
    user.cluster.crash((folder / f"jobs/{job}_2/nodes").read_text().strip())
    # As the clock before the limit does it.
    administer(user.cluster, "scancel", "--batch", "--signal=URG", f"{job}_1")
    assert user.hpcdist("wait", "elements-1").returncode == 93
    assert element_states(user, "elements-1") == {
        "1": [("requeued", "timeout"), ("completed", "completed")],
        "2": [("requeued", ""), ("completed", "completed")],
        "3": [("failed", "exit_code_93")],
        "4": [("completed", "completed")],
    }
    done = user.hpcdist("resume", "elements-1")
    assert done.returncode == 0, done.stderr
    assert user.hpcdist("wait", "elements-1").returncode == 0
    found = element_states(user, "elements-1")
    assert (found["3"], len(found["4"])) == ([("failed", "exit_code_93"), ("completed", "completed")], 1)
    assert [each["state"] for each in user.json("status", "elements-1/3")] == ["completed"]
    assert [(folder / f"checkpoints/{number}/step").read_text() for number in range(1, 5)] == ["40"] * 4
    printed = user.hpcdist("logs", "elements-1/3").stdout.splitlines()
    assert [line for line in printed if line.startswith("attempt")] == ["attempt 1 from 0"]
    again = user.hpcdist("resume", "elements-1")
    assert (again.returncode, again.stderr) == (2, "error: elements-1 has completed\n")

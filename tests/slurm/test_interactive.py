"""Commands beside the tasks of a job, on the real Slurm."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from typing import Any, Final

import pytest

from hpcdist.runs import inside
from hpcdist.schedulers.answers import by_ssh
from hpcdist.schedulers.base import Nodes
from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = pytest.mark.real

NODE: Final = {"resources": {"cpu": {"requests": 1}, "gpu": {"requests": 1}}}
WAITS: Final[dict[str, Any]] = {
    "framework": "mpi",
    "run": {"cmd": "touch up.$HPCDIST_RANK; sleep 1000"},
    "environment": {
        **NODE,
        "env_vars": {"ODD": "a 'b' $(no)\nc"},
        "replicas": {"n_workers": 4, "default_worker": NODE},
    },
}


@pytest.fixture
def job(user: User) -> Iterator[str]:
    """A run of five ranks on two nodes, which have begun and wait."""
    assert user.hpcdist("submit", user.write("waits", WAITS)).returncode == 0
    until(lambda: len([*user.directory.glob("up.*")]) == 5, "all ranks to begin")
    yield "waits-1"
    user.hpcdist("cancel", "waits-1")


def test_a_command_runs_on_the_node_of_a_rank_with_its_variables(user: User, job: str) -> None:
    nodes = next((user.directory / "runs" / job / "jobs").glob("*/nodes")).read_text().split()
    rows = {row["rank"]: nodes[row["node"]] for row in user.json("plan", "waits.yml")["tasks"]}
    script = 'echo "$HPCDIST_RANK $(uname -n) $ODD $PWD"; kill -0 ${HPCDIST_PIDS%% *} && exit 9'
    for rank in (0, 4):
        done = user.hpcdist("exec", job, "--rank", str(rank), "--", "bash", "-c", script)
        assert (done.returncode, done.stdout) == (
            9,
            f"{rank} {rows[rank]} a 'b' $(no)\nc {user.directory}\n",
        ), done.stderr
    assert user.hpcdist("exec", job, "--node", nodes[1], "--", "uname", "-n").stdout == f"{nodes[1]}\n"


@pytest.mark.extended
def test_ssh_reaches_the_rank_where_a_batch_system_cannot(user: User, job: str) -> None:
    (folder,) = (user.directory / "runs" / job / "jobs").iterdir()
    names = tuple((folder / "nodes").read_text().split())
    script = 'echo "$HPCDIST_RANK $(uname -n) $ODD"; exit 9'
    words = ("bash", "-c", inside.text("inside.sh"), "hpcdist", str(folder), "4", "bash", "-c", script)
    _, command = by_ssh(Nodes(folder.name, names, (0, 1)), words, terminal=False)
    done = user.cluster.run(command.argv)
    assert (done.returncode, done.stdout) == (9, f"4 {names[1]} a 'b' $(no)\nc\n"), done.stderr


def in_terminal(user: User, *words: str) -> tuple[int, str]:
    """Run hpcdist in a pseudo-terminal; return its exit code and what it printed."""
    ours, theirs = pty.openpty()
    process = user.cluster.popen(
        [PYTHON, "-m", "hpcdist", *words],
        cwd=user.directory,
        env=ENVIRONMENT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += (data := os.read(ours, 4096))
        except OSError:  # EIO: the last of them has closed it
            break
        if not data:
            break
    os.close(ours)
    return process.wait(), said.decode().replace("\r", "")


@pytest.mark.extended
def test_a_command_in_a_terminal_has_one(user: User, job: str) -> None:
    code, said = in_terminal(
        user, "exec", job, "--rank", "1", "--", "bash", "-c", "test -t 0 && test -t 1 && exit 4"
    )
    assert code == 4, said


@pytest.mark.extended
def test_an_element_of_an_array(user: User) -> None:
    array = {
        "run": {"cmd": "touch up.$HPCDIST_ELEMENT$SLURM_ARRAY_TASK_ID; sleep 1000"},
        "batch": {"array": "2-3"},
    }
    assert user.hpcdist("submit", user.write("array", array)).returncode == 0
    until(lambda: len([*user.directory.glob("up.*")]) == 2, "both elements to begin")
    done = user.hpcdist("exec", "array-1/3", "--", "printenv", "SLURM_ARRAY_TASK_ID")
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert user.hpcdist("exec", "array-1", "--", "true").returncode == 2
    assert user.hpcdist("cancel", "array-1").returncode == 0


@pytest.mark.extended
def test_a_packed_trial_is_reached_on_its_node(user: User) -> None:
    search = {
        "hptuning": {"matrix": {"lr": {"values": [1, 2, 3]}}},
        "run": {"cmd": "touch up.{{ lr }}; sleep 1000"},
        "batch": {"pack": True},
        "environment": NODE,
    }
    assert user.hpcdist("submit", user.write("packed", search)).returncode == 0
    until(lambda: len([*user.directory.glob("up.*")]) == 3, "all trials to begin")
    for trial in ("1", "3"):
        done = user.hpcdist("exec", f"packed-1/{trial}", "--", "printenv", "HPCDIST_JOB_ID")
        assert (done.returncode, done.stdout[-3:]) == (0, f"_{trial}\n"), done.stderr
    found = user.json("debug", "packed-1/2")
    assert [(one["ranks"], one["frames"][0].partition(":")[0]) for one in found["stacks"]] == [([0], "sleep")]
    assert user.hpcdist("debug", "packed-1").returncode == 2
    assert user.hpcdist("cancel", "packed-1").returncode == 0


HANGS: Final = """\
import os, pathlib, time
from mpi4py import MPI

def load_batch():
    time.sleep(1000)

def main():
    rank = MPI.COMM_WORLD.Get_rank()
    pathlib.Path(f"up.{rank}").touch()
    if rank == 2:
        load_batch()
    MPI.COMM_WORLD.allreduce(rank)

main()
"""


@pytest.mark.extended
def test_debug_names_the_rank_that_does_not_join_the_allreduce(user: User) -> None:
    (user.directory / "hangs.py").write_text(HANGS)
    file = user.write("hangs", WAITS | {"run": {"cmd": "python hangs.py"}})
    assert user.hpcdist("submit", file).returncode == 0
    until(lambda: len([*user.directory.glob("up.*")]) == 5, "all ranks to begin")
    done = user.hpcdist("debug", "hangs-1")
    stacks = done.stdout.split("\n\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert [stack.splitlines()[0] for stack in stacks] == [
        "hangs-1: 5 ranks on 2 nodes, 2 stacks",
        "ranks 0-1,3-4",
        "rank 2",
    ]
    assert "main (hangs.py:12)" in stacks[1]
    assert "load_batch (hangs.py:5)" in stacks[2]
    user.hpcdist("cancel", "hangs-1")


@pytest.mark.extended
def test_both_components_of_a_heterogeneous_job_are_reached(user: User) -> None:
    environment = {
        "resources": {"cpu": {"requests": 2}},
        "node_selector": {"partition": "cpu"},
        "env_vars": {"ODD": "x"},
        "replicas": {
            "n_workers": 3,
            "default_worker": {"resources": {"gpu": {"requests": 1}}, "node_selector": {"partition": "v100"}},
        },
    }
    assert user.hpcdist("submit", user.write("het", WAITS | {"environment": environment})).returncode == 0
    until(lambda: len([*user.directory.glob("up.*")]) == 4, "all ranks to begin")
    for rank in ("0", "3"):
        done = user.hpcdist("exec", "het-1", "--rank", rank, "--", "printenv", "HPCDIST_RANK")
        assert (done.returncode, done.stdout) == (0, f"{rank}\n"), done.stderr
    found = user.json("debug", "het-1")
    assert [(one["ranks"], one["frames"][0].partition(":")[0]) for one in found["stacks"]] == [
        ([0, 1, 2, 3], "sleep"),
    ]
    user.hpcdist("cancel", "het-1")

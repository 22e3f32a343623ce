"""A rehearsal on two nodes of a real Slurm: ranks of both get KILL, and so do all of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]

WALK = """\
import os, time
import hpcdist_tracking
file = os.path.join(os.environ["HPCDIST_CHECKPOINTS"], "step")
step = int(open(file).read()) if os.path.exists(file) else 0
while True:
    time.sleep(0.1)
    step += 1
    if os.environ["HPCDIST_RANK"] == "0":
        hpcdist_tracking.log_metrics(step=step, loss=1 / step)
        with open(file + ".new", "w") as new:
            new.write(str(step))
        os.replace(file + ".new", file)
"""
SPREAD = ("--set", "environment.replicas.per_node=1", "--nodes", "2", "--minutes", "60", "--seed", "2")


@pytest.mark.usefixtures("examples")
def test_a_distributed_training_goes_on_after_all_of_it(user: User, workdir: Path) -> None:
    done = user.hpcdist(
        "rehearse",
        "examples/pytorch_resume.yml",
        *SPREAD,
        "-p",
        "epochs=100000",
        "-p",
        "pause=0.1",
        "--json",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [(each["kind"], each["went_on"], each["shown_by"]) for each in found["attempts"]] == [
        ("notice", None, None),
        ("write", True, "steps"),
        ("node", True, "steps"),
        ("rank", True, "steps"),
        ("last", True, "steps"),
    ]
    ends = {each["kind"]: each["ended_by"] for each in found["attempts"]}
    first, second = (workdir / "runs" / found["run"] / "jobs").glob("*/nodes").__next__().read_text().split()
    assert ends["write"] == f"KILL to rank 0 on {first} at a checkpoint"
    assert ends["node"] in {f"KILL to rank {rank} on {node}" for rank, node in enumerate((first, second))}
    assert ends["rank"] == f"KILL to rank 1 on {second}"
    assert (found["verdict"], found["findings"]) == ("passes", [])


def test_ranks_that_mpirun_started_on_two_nodes_are_killed(cluster: Cluster, workdir: Path) -> None:
    (workdir / "walk.py").write_text(WALK)
    user = User(cluster, workdir)
    experiment = {
        "framework": "mpi",
        "environment": {
            "replicas": {"n_workers": 1, "per_node": 1},
            "restart": {"on": ["failure"]},
        },
        "run": {"cmd": "python3 walk.py"},
        "batch": {"walltime": "10m", "launcher": "mpirun"},
    }
    words = ("--nodes", "2", "--minutes", "60", "--seed", "2")
    found = user.json("rehearse", user.write("walk", experiment), *words)
    first, second = (workdir / "runs" / found["run"] / "jobs").glob("*/nodes").__next__().read_text().split()
    assert [(each["kind"], each["ended_by"], each["went_on"]) for each in found["attempts"][:3]] == [
        ("write", f"KILL to rank 0 on {first} at a checkpoint", None),
        ("node", f"KILL to rank 1 on {second}", True),
        ("rank", f"KILL to rank 1 on {second}", True),
    ]
    assert (found["verdict"], found["findings"], len(found["attempts"])) == ("passes", [], 4)

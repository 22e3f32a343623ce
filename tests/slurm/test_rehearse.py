"""A rehearsal on two nodes of a real Slurm: ranks of both get KILL, and so do all of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.host.resources import shipped
from tests.slurm.cluster import Cluster
from tests.slurm.users import User

pytestmark = pytest.mark.real

SPREAD = ("--set", "environment.replicas.per_node=1", "--nodes", "2", "--minutes", "60", "--seed", "2")


def test_a_distributed_training_goes_on_after_all_of_it(cluster: Cluster, workdir: Path) -> None:
    (workdir / "examples").symlink_to(shipped("site_configs").parent / "examples")
    user = User(cluster, workdir)
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

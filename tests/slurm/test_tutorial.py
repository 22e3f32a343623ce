"""The second half of the tutorial, as it stands, on the real Slurm: a site file of its own, two nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import block, typed
from tests.slurm.cluster import Cluster
from tests.slurm.process import SYSTEM_PATH, until
from tests.slurm.users import PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended]


def test_the_tutorial_ends_with_a_job_on_two_nodes(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    (workdir / "train.py").write_text(block("train"))
    commands = ["set -e", *typed(block("tutorial site")), *typed(block("tutorial"))]
    environment = {"PATH": f"{PYTHON.parent}:{SYSTEM_PATH}", "XDG_CONFIG_HOME": str(workdir / "config")}
    done = user.cluster.run(["bash", "-c", "\n".join(commands)], user=user.name, cwd=workdir, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [line for line in done.stdout.splitlines() if "add up" in line]
    total = sum(range(len(ranks)))
    assert sorted(ranks) == sorted(
        f"{rank}: rank {rank} of {len(ranks)}: all ranks add up to {total}" for rank in range(len(ranks))
    )
    assert "2 nodes" in user.log("two-1")


def test_the_rank_that_hangs_is_found_and_a_shell_tries_its_remedy(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    program = block("hanging program")
    (workdir / "hang.py").write_text(program)
    (workdir / "hang.yml").write_text(block("hanging"))
    assert user.hpcdist("submit", "hang.yml").returncode == 0
    until(lambda: user.hpcdist("debug", "hang-1").stdout == block("hanging ranks"), "all ranks to hang")
    assert user.hpcdist("cancel", "hang-1").returncode == 0
    (workdir / "hang.py").write_text(program.replace("while world.rank == 2", "while False"))
    done = user.hpcdist("shell", "hang.yml", "--", "launch")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank}: rank {rank} is done" for rank in range(4)]

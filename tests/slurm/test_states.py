"""What hpcdist says of jobs that are over, where there is accounting and where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.slurm import cgroups
from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import PYTHON, User

pytestmark = pytest.mark.real


def ends_with_3(user: User) -> dict[str, Any]:
    """Run a job that fails; return what `hpcdist status` says of it."""
    done = user.hpcdist("submit", user.write("fails", {"run": {"cmd": "exit 3"}}), "--wait")
    assert done.returncode == 3, done.stderr
    return said(user)


def said(user: User) -> dict[str, Any]:
    (one,) = user.json("status", "fails-1")
    return {key: one[key] for key in ("state", "native_state", "exit_code", "source")}


def test_without_accounting(cluster: Cluster, workdir: Path) -> None:
    expected = {"state": "failed", "native_state": "FAILED", "exit_code": 3, "source": "squeue"}
    assert ends_with_3(User(cluster, workdir)) == expected


@pytest.mark.extended
@pytest.mark.skipif(cgroups.missing() != "", reason=cgroups.missing())
def test_a_step_that_ran_out_of_memory(tmp_path: Path) -> None:
    """Slurm has the word in the line of the step, where the job's own script returned its exit code."""
    with Cluster.boot(tmp_path, accounting=True, constrains_memory=True) as cluster:
        user = User(cluster, cluster.workdir())
        uses = "x = [bytes([1]) * (1 << 20) for _ in range(400)]"
        experiment = {
            "framework": "pytorch",
            "environment": {"resources": {"cpu": {"requests": 1}, "memory": {"requests": 100}}},
            "run": {"cmd": f'{PYTHON} -c "{uses}"'},
        }
        done = user.hpcdist("submit", user.write("fails", experiment), "--wait")
        assert done.returncode == 137, done.stderr
        until(lambda: said(user)["source"] == "sacct", "sacct to know the end")
        assert said(user) == {
            "state": "out_of_memory",
            "native_state": "FAILED",
            "exit_code": 137,
            "source": "sacct",
        }


def test_with_accounting(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    assert ends_with_3(user)["exit_code"] == 3
    # slurmdbd hears of the end a second or so late; until then squeue and the job itself answer.
    found = said(user)
    assert found.pop("source") in ("sacct", "squeue")
    assert found == {"state": "failed", "native_state": "FAILED", "exit_code": 3}

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcdist.plan import Variable
from hpcdist.renderer import render
from tests.experiments import environment, resources
from tests.plans import planned

PLAN = planned(framework="mxnet", environment=environment(2, ps=1, each=resources(cpu=1)))


def test_where_the_scheduler_is_and_how_many_there_are_of_the_others() -> None:
    origin = "framework mxnet"
    assert [variable for variable in PLAN.variables if variable.origin == origin] == [
        Variable.raw("DMLC_PS_ROOT_URI", "$HPCDIST_HEAD_ADDRESS", origin),
        Variable.raw("DMLC_PS_ROOT_PORT", "$HPCDIST_PORT", origin),
        Variable(name="DMLC_NUM_WORKER", value="2", origin=origin),
        Variable(name="DMLC_NUM_SERVER", value="1", origin=origin),
    ]


@pytest.mark.parametrize(("rank", "role"), [(0, "scheduler"), (1, "worker"), (2, "worker"), (3, "server")])
def test_the_role_of_each_task(tmp_path: Path, rank: int, role: str) -> None:
    (tmp_path / "task.sh").write_text(render(PLAN).task)
    (tmp_path / "nodes").write_text("localhost\n")
    environ = {"PATH": os.environ["PATH"], "SLURM_PROCID": str(rank), "SLURM_NTASKS": "4"}
    done = subprocess.run(
        ["bash", str(tmp_path / "task.sh"), "bash", "-c", "echo $DMLC_ROLE"],
        env=environ | {"HPCDIST_JOB_DIR": str(tmp_path), "HPCDIST_ENDED": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{role}\n"

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from tests.experiments import environment
from tests.plans import LOCAL, WRAPPED, changed, planned, words
from tests.script.jobs import started

MACHINE = changed(LOCAL, launcher="processes")


def test_the_script_itself_starts_the_tasks() -> None:
    plan = planned(MACHINE, framework="pytorch", environment=environment(3))
    assert words(plan) == [
        *WRAPPED,
    ]
    assert plan.launch.label_in_task


@pytest.mark.parametrize("framework", ["mpi", "horovod"])
def test_frameworks_that_need_mpi_are_refused(framework: str) -> None:
    message = (
        f"batch.launcher: framework {framework} needs MPI, which launcher processes does not provide; "
        "write one of "
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        planned(MACHINE, framework=framework, environment=environment(1))


def test_not_under_a_batch_system() -> None:
    message = "batch.launcher: launcher processes does not start tasks under scheduler slurm (site testbed); "
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        planned(batch={"launcher": "processes"})


def test_not_on_several_nodes() -> None:
    machine = changed(MACHINE, partitions={}, default_partition=None)
    message = "launcher processes starts tasks on one node only; use srun or mpirun"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        planned(machine, framework="pytorch", environment=environment(1))


def test_the_others_go_on_when_one_fails(tmp_path: Path) -> None:
    section: dict[str, Any] = {"framework": "pytorch", "environment": environment(1)}
    for batch, seconds, finished in (({"kill_on_failure": False}, 1, True), ({}, 50, False)):
        section["run"] = {"cmd": f"((HPCDIST_RANK)) || exit 3; sleep {seconds}; echo finished"}
        folder = tmp_path / str(seconds)
        folder.mkdir()
        with started(folder, batch=batch, **section) as job:
            out, _ = job.communicate(timeout=60)
        assert (job.returncode, "1: finished" in out) == (3, finished)

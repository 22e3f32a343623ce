"""GPUs on nodes that several jobs share, by a real bash: a task takes none that may be another job's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.plan.model import Plan
from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import site
from tests.tasks import task_wrapper
from tests.wording import Wording

TWO_GPUS = environment(each=resources(cpu=4, gpu=2))
NOTHING_SAYS = (
    "this job has 2 of the 4 GPUs of this node, and nothing says which: CUDA_VISIBLE_DEVICES is not set"
)


def plan_on(scheduler: str = "pbs", asked: dict[str, Any] = TWO_GPUS, **keys: Any) -> Plan:
    own = {"sge": {"sge": {"environments": {"*": "mpi"}, "one_node": "smp", "gpus_per": "host"}}}.get(
        scheduler, {}
    )
    launcher = {"slurm": "srun", "flux": "flux"}.get(scheduler, "mpirun")
    machine = site(
        scheduler=scheduler, launcher=launcher, node_types={"gpu": {"cpus": 8, "gpus": 4}},
        partitions={"workq": {"nodes": {"gpu": 4}}}, default_partition="workq", **own,
    )  # fmt: skip
    return planned(machine, framework="mpi", environment=asked, batch={"walltime": "1h", **keys})


def seen(plan: Plan, folder: Path, **variables: str) -> str:
    """Run the first task on a node that shows four GPUs; return which it sees, or why it failed."""
    for number in range(4):
        (folder / f"nvidia{number}").touch()
    assert plan.launch.rank_variables
    task = folder / "task.sh"
    task.write_text(task_wrapper(render(plan)).replace("/dev/nvidia", f"{folder}/nvidia"))
    (folder / "nodes").write_text("localhost\n")
    (folder / "failure").unlink(missing_ok=True)
    own = {
        "PATH": os.environ["PATH"],
        "HPCDIST_JOB_DIR": str(folder),
        "HPCDIST_FAILURE": str(folder / "failure"),
        plan.launch.rank_variables.rank: "0",
        str(plan.launch.rank_variables.size): str(plan.placement.size),
        plan.launch.rank_variables.local_rank: "0",
    }
    words = ["bash", str(task), "bash", "-c", f'echo "${{CUDA_VISIBLE_DEVICES-unset}}" >{folder}/failure']
    subprocess.run(words, env=own | variables, capture_output=True, text=True, check=False)
    return (folder / "failure").read_text().strip()


@pytest.mark.parametrize("scheduler", ["pbs", "sge"])
def test_tasks_take_no_gpu_where_the_jobs_gpus_are_unknown(
    tmp_path: Path, scheduler: str, wording: Wording
) -> None:
    plan = plan_on(scheduler)
    wording(warnings_of(plan))
    assert NOTHING_SAYS in seen(plan, tmp_path)
    assert seen(plan, tmp_path, CUDA_VISIBLE_DEVICES="2,3") == "2,3"


def test_a_job_that_has_all_of_a_node_takes_its_gpus(tmp_path: Path) -> None:
    for plan in (plan_on(exclusive=True), plan_on(asked=environment(each=resources(cpu=8, gpu=4)))):
        assert warnings_of(plan) == ()
        assert seen(plan, tmp_path).startswith("0,1")


def test_a_job_without_gpus_sees_none_but_on_nodes_of_its_own(tmp_path: Path) -> None:
    none = environment(each=resources(cpu=1))
    assert seen(plan_on(asked=none), tmp_path) == ""
    assert seen(plan_on(asked=none), tmp_path, CUDA_VISIBLE_DEVICES="1") == "1"
    assert seen(plan_on(asked=none, exclusive=True), tmp_path) == "unset"
    assert seen(plan_on("slurm", asked=none), tmp_path, PMIX_RANK="0") == ""

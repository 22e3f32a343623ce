"""GPUs on nodes that several jobs share, by a real bash: a task takes none that may be another job's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcdist.plan.model import Plan
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import site
from tests.tasks import run
from tests.wording import Wording

TWO_GPUS = environment(each=resources(cpu=4, gpu=2))
NOTHING_SAYS = "the job has 2 of 4 GPUs here, and nothing says which: ask for all, or for whole nodes"


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
    command = 'echo "${CUDA_VISIBLE_DEVICES-unset}"'
    (task, *_) = plan.placement.tasks
    done = run(plan, folder, command, [task], **variables)
    return (done.stderr or done.stdout).removeprefix("0: ").strip()


@pytest.mark.parametrize("scheduler", ["pbs", "sge"])
def test_tasks_take_no_gpu_where_the_jobs_gpus_are_unknown(
    tmp_path: Path, scheduler: str, wording: Wording
) -> None:
    plan = plan_on(scheduler)
    wording(warnings_of(plan))
    assert NOTHING_SAYS in seen(plan, tmp_path)
    assert seen(plan, tmp_path, CUDA_VISIBLE_DEVICES="2,3") == "2,3"


def test_a_job_that_has_all_of_a_node_sees_its_gpus(tmp_path: Path) -> None:
    for plan in (plan_on(exclusive=True), plan_on(asked=environment(each=resources(cpu=8, gpu=4)))):
        assert warnings_of(plan) == ()
        assert seen(plan, tmp_path) == "unset"


def test_a_job_without_gpus_sees_none_but_on_nodes_of_its_own(tmp_path: Path) -> None:
    none = environment(each=resources(cpu=1))
    assert seen(plan_on(asked=none), tmp_path) == ""
    assert seen(plan_on(asked=none), tmp_path, CUDA_VISIBLE_DEVICES="1") == "1"
    assert seen(plan_on(asked=none, exclusive=True), tmp_path) == "unset"
    assert seen(plan_on("slurm", asked=none), tmp_path, PMIX_RANK="0") == ""

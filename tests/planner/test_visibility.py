"""Which GPUs tasks see, and in which order: by a real bash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcdist.base.errors import PlanError
from hpcdist.plan.folding import devices
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Origin
from hpcdist.planner.placement import ReplicaGroup, place
from hpcdist.site.model import LauncherOptions
from hpcdist.testing.contract import altered
from tests.experiments import environment, resources
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, TESTBED, changed, planned, warnings_of
from tests.sites import site, site_named
from tests.tasks import DEVICES, told
from tests.tiers import examples
from tests.wording import Wording

ONE_GPU = resources(cpu=4, gpu=1)
PLAN = planned(framework="mpi", environment=environment(1, each=ONE_GPU))


@pytest.mark.extended
@pytest.mark.parametrize("framework", ["horovod", "mpi", "chainermn", "deepspeed", "lightning", "accelerate"])
def test_one_gpu_each_is_the_one_of_its_number_on_the_node(tmp_path: Path, framework: str) -> None:
    plan = planned(framework=framework, environment=environment(5, each=ONE_GPU))
    assert (plan.gpus.visibility, plan.origins["gpu_visibility"]) == ("node", Origin("framework", framework))
    for task, variables in zip(
        plan.placement.tasks, told(plan, tmp_path, names=["HPCDIST_GPUS"]), strict=True
    ):
        gpus = variables["CUDA_VISIBLE_DEVICES"].split(",")
        assert gpus == DEVICES
        assert gpus[int(variables["HPCDIST_LOCAL_RANK"])] == DEVICES[task.gpus[0]]
        assert variables["HPCDIST_GPUS"] == variables["HPCDIST_LOCAL_RANK"]
    assert warnings_of(plan) == ()


@pytest.mark.extended
@examples(60)
@given(replica_groups=jobs(), data=st.data())
def test_whatever_the_shape_the_device_of_its_local_rank_is_its_own(
    tmp_path: Path, replica_groups: list[ReplicaGroup], data: st.DataObject
) -> None:
    plan = altered(PLAN, placement=place(replica_groups))
    task = data.draw(st.sampled_from(list(plan.placement.tasks)))
    (variables,) = told(plan, tmp_path, [task], names=["HPCDIST_GPUS"])
    if not any(group.gpus for group in plan.placement.groups):
        assert "HPCDIST_GPUS" not in variables
        return
    seen = variables["CUDA_VISIBLE_DEVICES"].split(",") if variables["CUDA_VISIBLE_DEVICES"] else []
    numbers = [int(number) for number in variables["HPCDIST_GPUS"].split(",") if number]
    own = {DEVICES[gpu] for gpu in task.gpus}
    assert {seen[number] for number in numbers} == own
    assert tuple(numbers) == devices(plan, task)
    assert sorted(seen) == (DEVICES if own else [])
    shown = len({gpu for one in plan.placement.on_node(task.node) for gpu in one.gpus})
    if own:
        assert seen[task.local_rank % shown] in own


def test_on_a_machine_without_a_scheduler(tmp_path: Path) -> None:
    machine = changed(LOCAL, launcher="processes")
    plan = planned(
        machine, framework="pytorch", pytorch={"launch": "env"}, environment=environment(3, each=ONE_GPU)
    )
    seen = [
        variables["CUDA_VISIBLE_DEVICES"].split(",")[int(variables["LOCAL_RANK"])]
        for variables in told(plan, tmp_path, CUDA_VISIBLE_DEVICES="7,5,3,1")
    ]
    assert seen == ["7", "5", "3", "1"]


def device_warnings(plan: Plan) -> list[str]:
    return [text for text in warnings_of(plan) if "device" in text]


SHARED = environment(1, each=resources(cpu=4, gpu=2), processes_per_replica=4)
SERVER_FIRST = {
    "resources": resources(cpu=1),
    "replicas": {"n_workers": 2, "default_worker": {"resources": ONE_GPU}},
}


@pytest.mark.parametrize(
    "data",
    [
        {"environment": environment(1, each=resources(cpu=2, gpu=2), processes_per_replica=1)},
        {"environment": SHARED, "batch": {"gpu_visibility": "task"}},  # chosen
        {"environment": SHARED, "run": {"cmd": "srun python train.py"}},
    ],
)
def test_device_of_its_own_does_not_warn(data: dict[str, Any]) -> None:
    assert device_warnings(planned(framework="mpi", **data)) == []


@pytest.mark.parametrize("section", [SHARED, SERVER_FIRST], ids=["shared GPUs", "a master without"])
def test_missing_device_warns(section: dict[str, Any], wording: Wording) -> None:
    wording(device_warnings(planned(framework="mpi", environment=section)))


HIDING = [
    ("srun", TESTBED, "--gpu-bind=closest"),
    ("srun", TESTBED, "--gpu-bind=verbose,single:1"),
    ("srun", TESTBED, "--gpus-per-task=1"),
    ("srun", TESTBED, "--tres-bind=gres/gpu:closest"),
    ("pals", site_named("polaris-like"), "--gpu-bind list:0:1:2:3"),
    ("flux", site_named("tuolumne-like"), "--setopt=gpu-affinity=per-task"),
]


@pytest.mark.parametrize(("launcher", "machine", "text"), HIDING, ids=[text for *_, text in HIDING])
def test_launcher_that_assigns_gpus_is_used(launcher: str, machine: Any, text: str, wording: Wording) -> None:
    machine = changed(
        machine,
        gpus=replace(machine.gpus, bound_by="task"),
        launchers={launcher: LauncherOptions(binding=tuple(text.split()))},
    )
    data: dict[str, Any] = {"framework": "mpi", "environment": environment(1, each=ONE_GPU)}
    batch = {"launcher": launcher, "account": "abc"}
    plan = planned(machine, batch=batch, **data)
    assert plan.gpus.visibility == "launcher"
    with pytest.raises(PlanError) as caught:
        planned(machine, batch=batch | {"gpu_visibility": "node"}, **data)
    wording((*device_warnings(plan), str(caught.value)))


@pytest.mark.parametrize("text", ["--gpu-bind=none", "--gpu-bind=verbose,none", "--cpu-bind=cores"])
def test_unrelated_options_do_not_change_visibility(text: str) -> None:
    batch = {"launcher": {"args": [text]}}
    plan: Plan = planned(site(), framework="mpi", batch=batch, environment=environment(1, each=ONE_GPU))
    assert plan.gpus.visibility == "node"


def test_launcher_args_can_change_visibility() -> None:
    batch = {"launcher": {"args": ["--gpus-per-task=1"]}}
    plan = planned(framework="mpi", batch=batch, environment=environment(1, each=ONE_GPU))
    assert plan.gpus.visibility == "launcher"

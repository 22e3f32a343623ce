"""What ``Wiring`` works out is what a real bash tells the tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.layers.frameworks import frameworks
from hpcdist.layers.variables import Wiring
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Placement, Task
from hpcdist.planner.placement import ReplicaGroup, by_node, place
from hpcdist.testing.contract import altered
from tests.experiments import environment, experiment, resources
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, TESTBED, changed, planned
from tests.sites import site
from tests.tasks import PORT, told
from tests.tiers import examples

ONE_GPU = environment(3, each=resources(cpu=1, gpu=1))
TORCHRUN = {"launch": "torchrun"}

PLANS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mpi": {"framework": "mpi", "environment": ONE_GPU},
    "chainermn": {"framework": "chainermn", "environment": ONE_GPU},
    "horovod": {"framework": "horovod", "environment": ONE_GPU},
    "jax": {"framework": "jax", "environment": ONE_GPU},
    "jax, all GPUs seen": {
        "framework": "jax",
        "batch": {"gpu_visibility": "node"},
        "environment": environment(1, each=resources(cpu=2, gpu=2)),
    },
    "deepspeed": {"framework": "deepspeed", "environment": environment(1, each=resources(cpu=2, gpu=2))},
    "lightning": {"framework": "lightning", "environment": environment(7, each=resources(cpu=1, gpu=1))},
    "uneven lightning": {
        "framework": "lightning",
        "environment": environment(4, each=resources(cpu=1, gpu=1)),
    },
    "accelerate": {"framework": "accelerate", "environment": ONE_GPU},
    "pytorch": {"framework": "pytorch", "environment": ONE_GPU},
    "pytorch env": {
        "framework": "pytorch",
        "pytorch": {"launch": "env"},
        "environment": environment(1, each=resources(cpu=4, gpu=4)),
    },
    "torchrun": {
        "framework": "pytorch",
        "pytorch": TORCHRUN,
        "environment": environment(3, each=resources(cpu=2, gpu=2)),
    },
    "uneven torchrun": {
        "framework": "pytorch",
        "pytorch": TORCHRUN,
        "environment": environment(2, each=resources(cpu=2, gpu=2)),
    },
    "mxnet": {"framework": "mxnet", "environment": environment(2, ps=2, each=resources(cpu=8))},
    "tensorflow": {
        "framework": "tensorflow",
        "environment": environment(4, ps=2, each=resources(cpu=8)),
    },
    "tensorflow 1": {
        "framework": "tensorflow",
        "tensorflow": {"version": "1.15"},
        "environment": {"replicas": {"n_workers": 2, "n_ps": 1, "evaluator": {}}},
    },
    "tensorflow, workers alone": {
        "framework": "tensorflow",
        "environment": environment(4, each=resources(cpu=8)),
    },
    "tensorflow, workers and their evaluator": {
        "framework": "tensorflow",
        "tensorflow": {"chief": False},
        "environment": {"replicas": {"n_workers": 2, "evaluator": {}}},
    },
    "ray": {"framework": "ray", "environment": environment(1, each=resources(cpu=8))},
    "components": {
        "framework": "tensorflow",
        "environment": {
            "replicas": {"n_workers": 2, "default_worker": {"resources": resources(gpu=1)}, "n_ps": 2}
        },
    },
}


def differences(plan: Plan, folder: Path, tasks: Sequence[Task]) -> list[tuple[str, str, str | None]]:
    """Return what bash tells a task and ``Wiring`` does not, or differently."""
    wiring = Wiring(plan)
    names = {
        item.name
        for item in (*plan.environment.variables, *plan.environment.task_variables)
        if item.origin.kind == "framework"
    }
    found: list[tuple[str, str, str | None]] = []
    for task, variables in zip(tasks, told(plan, folder, tasks), strict=True):
        expected = {name: numbered(value) for name, value in (wiring.shared | wiring.of(task)).items()}
        found += [
            (f"rank {task.rank}: {name}", expected.get(name, "nothing"), variables.get(name))
            for name in sorted(names)
            if expected.get(name) != variables.get(name)
        ]
    return found


def numbered(value: str) -> str:
    """Write the ports as numbers."""
    return re.sub(r"PORT(?:\+(\d+))?", lambda port: str(PORT + int(port[1] or 0)), value)


@pytest.mark.parametrize("name", PLANS)
def test_task_variables_of_each_framework(tmp_path: Path, name: str) -> None:
    plan = planned(**PLANS[name])
    assert differences(plan, tmp_path, list(plan.placement.tasks)) == []


def test_every_framework_is_here() -> None:
    assert {data.get("framework") for data in PLANS.values()} == {None, *frameworks.names()}


@pytest.mark.parametrize("machine", [site(), changed(LOCAL, launcher="processes")])
@pytest.mark.parametrize("name", ["mxnet", "tensorflow", "torchrun"])
def test_on_other_machines(tmp_path: Path, name: str, machine: Any) -> None:
    plan = planned(machine, **PLANS[name])
    assert differences(plan, tmp_path, list(plan.placement.tasks)) == []


SHAPED = {
    name: (planned(**data), experiment(**data))
    for name, data in PLANS.items()
    if name in {"jax", "pytorch env", "uneven torchrun", "mxnet", "tensorflow", "tensorflow 1"}
}


@pytest.mark.extended
@examples(60)
@given(name=st.sampled_from(sorted(SHAPED)), crowds=jobs(), data=st.data())
def test_whatever_the_shape_of_the_job(
    tmp_path: Path, name: str, crowds: list[ReplicaGroup], data: st.DataObject
) -> None:
    plan, exp = SHAPED[name]
    plan = altered(plan, placement=shaped(crowds, a_node="torchrun" in name))
    framework = frameworks.get(plan.identity.framework or "")
    shared = tuple(framework.variables(plan, exp, TESTBED))
    own = tuple(framework.task_variables(plan, exp, TESTBED))
    plan = altered(plan, variables=shared, task_variables=own)
    tasks = st.sampled_from(list(plan.placement.tasks))
    chosen = data.draw(st.lists(tasks, min_size=1, max_size=3, unique_by=lambda task: task.rank))
    assert differences(plan, tmp_path, chosen) == []


def shaped(crowds: list[ReplicaGroup], *, a_node: bool) -> Placement:
    return by_node(place(crowds)) if a_node else place(crowds)


def test_names_in_the_place_of_what_only_the_job_knows() -> None:
    plan = planned(framework="jax", environment=ONE_GPU)
    wiring = Wiring(plan)
    assert wiring.shared == {"JAX_COORDINATOR_ADDRESS": "node0:PORT"}
    assert [wiring.of(task) for task in plan.placement.tasks] == [
        {"JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": str(rank), "JAX_LOCAL_DEVICE_IDS": "0"}
        for rank in range(4)
    ]


def test_ports_of_tasks_that_share_a_node_and_variables_of_the_run() -> None:
    plan = planned(framework="tensorflow", environment=environment(1, each=resources(cpu=1)))
    wiring = Wiring(plan)
    assert wiring.of([*plan.placement.tasks][1]) == {
        "TF_CONFIG": '{"cluster": {"worker": ["node0:PORT","node0:PORT+1"]}, '
        '"task": {"type": "worker", "index": 1}, "model_dir": "$HPCDIST_OUTPUTS", "environment": "cloud"}'
    }


def test_the_users_own_value_is_shown_in_the_frameworks_place() -> None:
    section = {**ONE_GPU, "env_vars": {"JAX_COORDINATOR_ADDRESS": "other:1"}}
    shared = Wiring(planned(framework="jax", environment=section)).shared
    assert shared == {"JAX_COORDINATOR_ADDRESS": "other:1"}


def test_without_the_task_wrapper_nothing_differs_by_task() -> None:
    plan = planned(framework="jax", run={"cmd": "srun python train.py"}, environment=ONE_GPU)
    wiring = Wiring(plan)
    assert wiring.shared == {"JAX_COORDINATOR_ADDRESS": "node0:PORT"}
    assert [wiring.of(task) for task in plan.placement.tasks] == [{}] * 4

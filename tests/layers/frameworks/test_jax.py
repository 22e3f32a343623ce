from __future__ import annotations

from pathlib import Path

from hpcdist.plan.model import Plan
from hpcdist.plan.placeholders import HEAD_ADDRESS, PORT, RANK, SIZE, template
from hpcdist.plan.values import Origin, Variable
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, warnings_of, words
from tests.tasks import DEVICES, told

ORIGIN = Origin("framework", "jax")


def test_one_process_a_replica_with_all_its_gpus(tmp_path: Path) -> None:
    plan = planned(framework="jax", environment=environment(2, each=resources(cpu=8, gpu=2)))
    assert place_of_each(plan, tmp_path) == [
        ["node0:20000", "3", "0", "0,1", "100,101"],
        ["node0:20000", "3", "1", "0,1", "102,103"],
        ["node0:20000", "3", "2", "0,1", "100,101"],
    ]
    assert (words(plan)[-2:], warnings_of(plan), plan.completion.required_roles) == (WRAPPED, (), ())


def test_its_own_gpus_where_it_sees_all_of_the_node(tmp_path: Path) -> None:
    section = environment(1, each=resources(cpu=2, gpu=2))
    plan = planned(framework="jax", batch={"gpu_visibility": "node"}, environment=section)
    rest = DEVICES[3:]
    assert place_of_each(plan, tmp_path) == [
        ["node0:20000", "2", "0", "0,1", ",".join(DEVICES)],
        ["node0:20000", "2", "1", "1,3", ",".join(["100", "102", "101", *rest])],
    ]


def place_of_each(plan: Plan, folder: Path) -> list[list[str]]:
    names = ["JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_LOCAL_DEVICE_IDS"]
    names += ["CUDA_VISIBLE_DEVICES"]
    return [[variables[name] for name in names] for variables in told(plan, folder)]


def test_origins_of_variables() -> None:
    plan = planned(framework="jax")
    assert [
        item
        for item in (*plan.environment.variables, *plan.environment.task_variables)
        if item.origin == ORIGIN
    ] == [
        Variable.filled("JAX_COORDINATOR_ADDRESS", template(HEAD_ADDRESS, ":", PORT), ORIGIN),
        Variable.filled("JAX_NUM_PROCESSES", template(SIZE), ORIGIN),
        Variable.filled("JAX_PROCESS_ID", template(RANK), ORIGIN),
    ]

from __future__ import annotations

from hpcdist.plan import Variable
from tests.experiments import environment, resources
from tests.plans import planned


def from_pytorch(variables: tuple[Variable, ...]) -> dict[str, str]:
    assert all(variable.shell for variable in variables if variable.origin == "framework pytorch")
    return {variable.name: variable.value for variable in variables if variable.origin == "framework pytorch"}


def test_the_rendezvous_and_each_tasks_place_in_it() -> None:
    plan = planned(framework="pytorch", environment=environment(3, each=resources(cpu=1, gpu=1)))
    assert from_pytorch(plan.variables) == {
        "MASTER_ADDR": "$HPCDIST_HEAD_ADDRESS",
        "MASTER_PORT": "$HPCDIST_PORT",
    }
    assert from_pytorch(plan.task_variables) == {
        "WORLD_SIZE": "$HPCDIST_SIZE",
        "RANK": "$HPCDIST_RANK",
        "LOCAL_RANK": "$HPCDIST_LOCAL_RANK",
        "LOCAL_WORLD_SIZE": "$HPCDIST_LOCAL_SIZE",
        "NODE_RANK": "$HPCDIST_NODE",
    }


def test_one_task_a_replica_and_no_mpi() -> None:
    plan = planned(framework="pytorch", environment=environment(3, each=resources(cpu=1, gpu=2)))
    assert plan.placement.size == 4
    assert not plan.needs_pmi


def test_processes_of_a_replica() -> None:
    each = environment(1, each=resources(cpu=4, gpu=4), processes_per_replica=4)
    plan = planned(framework="pytorch", environment=each)
    assert [task.gpus for task in plan.placement.tasks] == [(0,), (1,), (2,), (3,)] * 2


def test_the_users_own_torchrun_starts_once_a_node() -> None:
    run = {"cmd": "torchrun --nproc_per_node=2 train.py"}
    plan = planned(framework="pytorch", run=run, environment=environment(3, each=resources(cpu=2, gpu=2)))
    assert (plan.launches, plan.placement.nodes, plan.placement.size) == ("tasks", 4, 4)
    assert [group.constraint for group in plan.placement.groups] == [None]

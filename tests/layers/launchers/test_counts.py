from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import PlanError, Problem
from hpcdist.layers.launchers import tasks_on_each_node
from hpcdist.plan.values import DEFAULT
from hpcdist.planner.placement import ReplicaGroup, place
from hpcdist.planner.pools import Need
from hpcdist.testing.contract import altered
from tests.planner.test_placement import BIG
from tests.schedulers import plans


def workers(number: int) -> list[ReplicaGroup]:
    """Return workers of which four fill a node."""
    return [ReplicaGroup("worker", 0, number, Need(1, 4, 1), BIG, DEFAULT)]


def test_the_same_number_on_all_nodes() -> None:
    plan = altered(plans.PLAN, placement=place(workers(8)))
    assert tasks_on_each_node(plan, "it needs equal nodes") == 4


@pytest.mark.parametrize(
    ("scheduler", "framework", "able"),
    [
        ("flux", "pytorch", ", or write another `batch.launcher`: mpirun or hydra or flux"),
        ("pbs", None, ", or write another `batch.launcher`: mpirun or hydra"),
        (
            "pbs",
            "horovod",
            ", or write another `batch.launcher`: mpirun or horovodrun or horovodrun-mpi or hydra",
        ),
        ("slurm", "mpi", ", or write another `batch.launcher`: srun or mpirun or hydra"),
        ("lsf", "mpi", ", or write another `batch.launcher`: mpirun or jsrun or hydra"),
        ("another", "mpi", ""),
    ],
)
def test_the_hint_names_launchers_that_can(scheduler: str, framework: str | None, able: str) -> None:
    plan = altered(plans.PLAN, scheduler=scheduler, framework=framework, placement=place(workers(10)))
    with pytest.raises(PlanError) as error:
        tasks_on_each_node(plan, "it needs equal nodes")
    assert error.value.problems == (
        Problem(
            "it needs equal nodes, and the plan has 4 on 1 node, 3 on 2 nodes",
            ("environment", "replicas"),
            f"ask for as many replicas as fill all nodes alike, such as 9 or 12 processes{able}",
        ),
    )


@pytest.mark.parametrize(
    ("crowds", "numbers"),
    [
        (workers(5), ", such as 4 or 6 processes"),
        (workers(13), ", such as 12 or 16 processes"),
        (workers(17), ", such as 16 or 20 processes"),  # 15 are 4, 4, 4 and 3
        ([ReplicaGroup("worker", 0, 3, Need(2, 4, 2), BIG, DEFAULT)], ", such as 4 or 8 processes"),
        # Of unequal replicas no number is right for all.
        ([*workers(4), ReplicaGroup("ps", 0, 1, Need(1, 8, 1), BIG, DEFAULT)], ""),
    ],
)
def test_the_hint_tells_numbers_that_fill_nodes_alike(crowds: list[ReplicaGroup], numbers: str) -> None:
    plan = altered(plans.PLAN, scheduler="another", placement=place(crowds))
    with pytest.raises(PlanError) as error:
        tasks_on_each_node(plan, "it needs equal nodes")
    assert [problem.hint for problem in error.value.problems] == [
        f"ask for as many replicas as fill all nodes alike{numbers}"
    ]
    for total in map(int, re.findall(r"\d+", numbers)):
        count = total // crowds[0].need.tasks
        assert len(list(place([replace(crowds[0], count=count)]).tasks_per_node())) == 1

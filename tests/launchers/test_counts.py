from __future__ import annotations

import pytest
from msgspec.structs import replace

from hpcdist.errors import PlanError, Problem
from hpcdist.launchers.counts import tasks_on_each_node
from hpcdist.placement import Crowd, place
from hpcdist.pool import Need
from tests.schedulers import plans
from tests.test_placement import BIG


def workers(number: int) -> list[Crowd]:
    """Return workers of which four fill a node."""
    return [Crowd("worker", 0, number, Need(1, 4, 1), BIG, "exp.yml")]


def test_the_same_number_on_all_nodes() -> None:
    plan = replace(plans.PLAN, placement=place(workers(8)))
    assert tasks_on_each_node(plan, "it needs equal nodes") == 4


@pytest.mark.parametrize(
    ("scheduler", "framework", "able"),
    [
        ("flux", "pytorch", ", or write another `batch.launcher`: mpirun or hydra"),
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
    plan = replace(plans.PLAN, scheduler=scheduler, framework=framework, placement=place(workers(10)))
    with pytest.raises(PlanError) as error:
        tasks_on_each_node(plan, "it needs equal nodes")
    assert error.value.problems == (
        Problem(
            "it needs equal nodes, and the plan has 4 on 1 node, 3 on 2 nodes",
            ("environment", "replicas"),
            f"ask for as many replicas as fill all nodes alike{able}",
        ),
    )

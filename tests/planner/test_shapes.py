"""Other shapes of a job that might start earlier."""

from __future__ import annotations

from typing import Any

from hpcdist.planner.worst_case import shapes
from hpcdist.site.model import Site
from tests.experiments import environment, experiment, resources
from tests.plans import planned
from tests.sites import site

NODES: dict[str, Any] = {
    "node_types": {"n": {"cpus": 64, "gpus": 4}},
    "partitions": {"p": {"nodes": {"n": 8}}, "q": {"nodes": {"n": 2}}},
}
FOUR: dict[str, Any] = {
    "framework": "horovod",
    "environment": environment(3, each=resources(gpu=4)),
    "batch": {"walltime": "2h", "nodes": 4, "partition": "p"},
}


def found(machine: Site, **data: Any) -> dict[str, tuple[Any, ...]]:
    """Return of each shape its walltime in minutes, its workers, nodes and partition."""
    asked = experiment(**data)
    return {
        shape.what: (
            shape.experiment.batch.walltime and shape.experiment.batch.walltime.seconds // 60,
            shape.experiment.environment.replicas and shape.experiment.environment.replicas.n_workers,
            shape.experiment.batch.nodes,
            shape.experiment.batch.partition,
        )
        for shape in shapes(asked, machine, planned(machine, **data))
    }


def test_less_time_fewer_replicas_and_other_partitions() -> None:
    assert found(site(**NODES), **FOUR) == {
        "as it is": (120, 3, 4, "p"),
        "half the walltime": (60, 3, 4, "p"),
        "a quarter of the walltime": (30, 3, 4, "p"),
        "half the replicas": (120, 1, 2, "p"),
        "partition q": (120, 3, 4, "q"),
    }


def test_jobs_of_less_than_ten_minutes_or_of_one_node_are_not_halved() -> None:
    one = {"batch": {"walltime": "15m"}}
    assert found(site(), **one) == {"as it is": (15, None, None, None)}


def test_parameter_servers_keep_their_replicas() -> None:
    servers = FOUR | {
        "framework": "tensorflow",
        "environment": environment(2, 1, each=resources(gpu=4)),
        "batch": {"nodes": 4},
    }
    assert [*found(site(), **servers)] == ["as it is"]

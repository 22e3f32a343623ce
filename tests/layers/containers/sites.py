"""Sites with a container runtime, and plans of tasks in it."""

from __future__ import annotations

from typing import Any

from hpcdist.plan.model import Plan
from hpcdist.site.model import Site
from tests.experiments import environment, resources
from tests.plans import WRAPPER, planned
from tests.sites import site

IMAGE = "nvcr.io/nvidia/pytorch:24.08-py3"
OWN = ["$PWD:$PWD", "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"]
"""What is bound always."""


def boxed(runtime: str, *, library: str = "nccl", launcher: str = "srun", **section: Any) -> Site:
    """Return a site of nodes with four GPUs."""
    return site(
        launcher=launcher,
        node_types={"x": {"cpus": 64, "gpus": 4, "library": library}},
        partitions={"gpu": {"nodes": {"x": 8}}},
        default_partition="gpu",
        volumes={"data": "/data/$x"},
        container={"runtime": runtime, **section},
    )


def two_tasks(machine: Site, image: str = IMAGE, gpu: int | None = 1, **data: Any) -> Plan:
    """Return the plan of two tasks in an image."""
    section = environment(1, each=resources(gpu=gpu), env_vars={"A": "it's $x"})
    base = {"framework": "mpi", "build": {"image": image}, "environment": section}
    return planned(machine, **base | data)


def inside(plan: Plan) -> list[str]:
    """Return the words between the task wrapper and the command."""
    texts = [word.text for word in plan.words]
    return texts[texts.index(WRAPPER) + 1 : -1]

"""Plans and sites to give to schedulers, with one thing changed at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from hpcdist.base.command import Completed
from hpcdist.plan.model import Identity, Launch, Plan
from hpcdist.plan.placement import Group, Placement
from hpcdist.site.fabric import JobFacts
from hpcdist.site.model import Site
from hpcdist.testing.contract import altered

GROUP = Group(
    partition="gpu",
    node_type="a100",
    gpu_type="a100",
    constraint=None,
    node=0,
    nodes=2,
    rank=0,
    tasks=8,
    tasks_per_node=4,
    cpus_per_task=8,
    cpus=32,
    gpus=4,
    memory=64000,
    gpus_per_task=1,
    even=True,
)

PLAN = Plan(
    identity=Identity(
        name="mnist", site="testbed", scheduler="slurm", framework="horovod", command="python train.py"
    ),
    placement=Placement(groups=(GROUP,), rows=()),
    facts=JobFacts(1),
    launch=Launch(launcher="srun"),
)

SITE = Site(name="testbed", description="a machine", scheduler="slurm", launcher="srun")


def group(**changes: Any) -> Group:
    return msgspec.structs.replace(GROUP, **changes)


def plan(*groups: Group, **changes: Any) -> Plan:
    placement = Placement(groups=groups or (GROUP,), rows=())
    return altered(PLAN, placement=placement, **changes)


def site(**changes: Any) -> Site:
    return msgspec.structs.replace(SITE, **changes)


def answer_id(answer: Completed) -> str:
    """Name a case of a table by its exit code and the end of its message."""
    return f"{answer.returncode} {' '.join(answer.stderr.split())[-80:]}"

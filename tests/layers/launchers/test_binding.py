"""Tasks on whole nodes are bound to the CPUs next to their GPUs, by the words of those that can list them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.cli.experiment.plan import records
from hpcdist.plan.model import Plan
from hpcdist.site.model import Site
from hpcdist.site.nodes import parse_cpu_list
from hpcdist.site.problems import problems_of
from tests.experiments import environment, resources
from tests.plans import planned, words
from tests.sites import shipped_site, site

GPU_CPUS = ["6-7,14-15", "4-5,12-13", "0-3,8-11", "0-3,8-11"]
"""GPUs 2 and 3 share a NUMA domain."""


def machine(**changes: Any) -> Any:
    node = {"cpus": 16, "gpus": 4, "gpu_cpus": GPU_CPUS}
    parts = {"gpu": {"nodes": {"n": 8}}}
    data = {"node_types": {"n": node}, "partitions": parts, "default_partition": "gpu", "whole_nodes": True}
    return site(**(data | changes))


def gpus(count: int, tasks: int = 7, **each: Any) -> dict[str, Any]:
    return {"framework": "horovod", "environment": environment(tasks, each=resources(gpu=count, **each))}


def bound(plan: Plan) -> list[set[int]]:
    """Return what the words of srun or PALS bind the tasks of a node to, in rank order."""
    text = " ".join(words(plan))
    if match := re.search(r"mask_cpu:(\S+)", text):
        masks = [int(mask, 16) for mask in match[1].split(",")]
        return [{bit for bit in range(mask.bit_length()) if mask >> bit & 1} for mask in masks]
    match = re.search(r"--cpu-bind list:(\S+)", text)
    lists = match[1].split(":") if match else []
    return [{cpu for run in parse_cpu_list(one) for cpu in run} for one in lists]


@pytest.mark.parametrize("pals", [False, True], ids=["srun", "pals"])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (gpus(1), [{6, 7, 14, 15}, {4, 5, 12, 13}, {0, 1, 8, 9}, {2, 3, 10, 11}]),
        (gpus(1, cpu=1), [{6}, {4}, {0}, {2}]),
        (gpus(2, 3, cpu=2), [{6}, {4}, {0}, {2}]),
        (
            gpus(2, 3) | {"framework": "pytorch"},
            [{6, 7, 14, 15, 4, 5, 12, 13}, {0, 1, 8, 9, 2, 3, 10, 11}],
        ),
    ],
)
def test_each_task_has_the_cpus_of_its_gpus_as_the_plan_says(
    asked: dict[str, Any], expected: list[set[int]], *, pals: bool
) -> None:
    plan = planned(machine(scheduler="pbs", launcher="pals") if pals else machine(), **asked)
    assert bound(plan) == expected
    assert [set(record["cpus"]) for record in records(plan) if record["node"] == 0] == expected


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"whole_nodes": False}, gpus(1, cpu=1)),
        ({}, gpus(1, tasks=4)),
        ({}, gpus(1, cpu=5, tasks=2)),
        ({"gpus": {"bound_by": "launcher"}}, gpus(1)),
        ({}, gpus(0)),
    ],
    ids=["shared nodes", "nodes that differ", "more CPUs than are near", "srun assigns GPUs", "no GPUs"],
)
def test_unknown_topology_is_not_bound(changes: dict[str, Any], asked: dict[str, Any]) -> None:
    plan = planned(machine(**changes), **asked)
    assert bound(plan) == []
    assert [row.gpu_cpus for row in plan.placement.rows if row.gpu_cpus] == []


def test_a_node_all_of_whose_cpus_and_gpus_are_asked_for_is_whole() -> None:
    assert bound(planned(machine(whole_nodes=False), **gpus(1))) == bound(planned(machine(), **gpus(1))) != []


def test_the_binding_of_lumi_is_that_of_its_guide() -> None:
    plan = planned(shipped_site("lumi"), **gpus(1, 15), batch={"account": "project_1"})
    assert next(text for text in words(plan) if text.startswith("--cpu-bind")) == (
        "--cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,"
        "0xfe0000000000"
    )


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        (["0-3"], ["node_types.n.gpu_cpus: 1 lists for 4 GPUs; write one for each GPU"]),
        (
            ["0"] * 4,
            ["node_types.n.gpu_cpus: the list has fewer CPUs than GPUs that share it; list more CPUs"],
        ),
        (["a"] * 4, ["node_types.n.gpu_cpus: 'a' is not a CPU list; write it as 48-63,112-127"]),
    ],
)
def test_wrong_lists(lists: list[str], expected: list[str]) -> None:
    data = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    nodes = {"n": {"cpus": 16, "gpus": 4, "gpu_cpus": lists}}
    built, problems = fields.build(Site, data | {"node_types": nodes})
    assert built
    assert problems == []
    assert [str(problem) for problem in problems_of(built)] == expected

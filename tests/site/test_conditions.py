"""Conditions of a site file: which jobs have a value."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.loading.sites import problems_in
from hpcdist.site.fabric import Condition, ConditionalText, JobFacts, applying
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.sites import site
from tests.wording import Wording

MPI = JobFacts(2, "nccl", framework="mpi", node_types=("a100",))
PLAIN = JobFacts(1, "nccl", gpus=False, node_types=("a100", "h100"))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({}, [True, True]),
        ({"library": "nccl"}, [True, False]),
        ({"frameworks": ["mpi", "horovod"]}, [True, False]),
        ({"frameworks": ["none"]}, [False, True]),
        ({"not_frameworks": ["mpi"]}, [False, True]),
        ({"not_frameworks": ["mpi", "none"]}, [False, False]),
        ({"node_types": ["a100"]}, [True, False]),
        ({"node_types": ["h100", "a100"]}, [True, True]),
        ({"min_nodes": 2}, [True, False]),
        ({"max_nodes": 1}, [False, True]),
        ({"min_nodes": 1, "max_nodes": 2}, [True, True]),
        ({"when": "multi_node", "library": "nccl", "frameworks": ["mpi"]}, [True, False]),
    ],
)
def test_a_condition_of_the_job(condition: dict[str, Any], holds: list[bool]) -> None:
    built, problems = fields.build(Condition, condition)
    assert built is not None
    assert ([facts.satisfies(built) for facts in (MPI, PLAIN)], problems) == (holds, [])


def test_nodes_that_are_not_known_satisfy_no_condition_of_nodes() -> None:
    assert not JobFacts(1).satisfies(Condition(node_types=("a100",)))


def test_texts_that_apply_come_with_their_condition() -> None:
    only = ConditionalText(value="c", not_frameworks=("mpi", "none"), node_types=("a100",))
    texts = ("a", ConditionalText(value="b", library="nccl", frameworks=("mpi",)), only)
    assert [*applying(texts, MPI)] == [("a", ()), ("b", ("nccl, framework mpi",))]
    assert [*applying(texts, PLAIN)] == [("a", ())]
    assert only.words == ("framework not mpi/none", "nodes a100")
    assert Condition(min_nodes=2, max_nodes=9).words == ("from 2 nodes on", "up to 9 nodes")


def found(**data: Any) -> list[str]:
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    built, problems = fields.build(Site, base | data)
    assert (built is not None, problems) == (True, [])
    assert built is not None
    return [str(problem) for problem in problems_in(built)]


@pytest.mark.parametrize(
    "data",
    [
        {"setup": ["a", {"value": "b"}]},
        {"modules": [{"value": "cuda", "node_types": ["a10"]}], "node_types": {"a100": {}}},
        {"fabric": {"env": {"X": {"value": 1, "frameworks": ["none", "horvod"]}}}},
        {"container": {"runtime": "apptainer", "binds": [{"value": "/a b", "library": "rccl"}]}},
        {"node_types": {"n": {"memory": "1G", "job_memory": "2G"}}},
        {"node_types": {"n": {}}, "partitions": {"p": {"nodes": {"n": 1}, "min_gpus": 4, "max_gpus": 2}}},
    ],
    ids=str,
)
def test_problems_of_conditions_and_limits(data: dict[str, Any], wording: Wording) -> None:
    wording(found(**data))


def test_frameworks_that_conditions_name() -> None:
    machine = site(
        setup=[{"value": "a", "frameworks": ["mpi", "none"]}],
        task_setup=[{"value": "b", "not_frameworks": ["mpi", "horovod"]}],
    )
    assert machine.conditional_frameworks() == ("mpi", "horovod")
    assert [*problems_of(machine)] == []

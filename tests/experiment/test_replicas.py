"""What is wrong with a number of nodes, by the file alone."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of
from hpcdist.experiment.replicas import NODES, PER_NODE, NodeCounts
from tests.wording import Wording

EVERY = {"n_workers": 3, "n_ps": 2, "evaluator": {}}


def built(nodes: int | None, replicas: dict[str, Any], **data: Any) -> Experiment:
    keys = {"run": {"cmd": "true"}, "batch": {"nodes": nodes}, "environment": {"replicas": replicas}}
    keys |= {"framework": "mpi"} if len(replicas) else {}
    experiment, problems = fields.build(Experiment, keys | data)
    assert problems == []
    assert experiment is not None
    return experiment


@pytest.mark.parametrize(
    ("nodes", "replicas"),
    [
        (2, {"n_workers": 3}),
        (3, {"n_workers": 3}),
        (2, {"n_workers": 3, "per_node": 2}),
        (None, EVERY | {"per_node": 7}),
        (None, {"n_workers": 999_999, "per_node": 4}),
    ],
)
def test_nodes_and_replicas_that_agree(nodes: int | None, replicas: dict[str, Any]) -> None:
    assert [*problems_of(built(nodes, replicas))] == []


@pytest.mark.parametrize(
    ("nodes", "replicas"),
    [
        (0, {}),
        (None, {"per_node": -1}),
        (5, {"n_workers": 3}),
        (2, {}),
        (4, {"n_workers": 3, "per_node": 2}),
        (2, {"n_workers": 3, "per_node": 3}),
        (None, {"n_workers": 4, "per_node": 2}),
        (None, EVERY | {"per_node": 8}),
        (1, {"n_ps": 2, "per_node": 1}),
    ],
    ids=str,
)
def test_nodes_and_replicas_that_contradict(
    nodes: int | None, replicas: dict[str, Any], wording: Wording
) -> None:
    wording(map(str, problems_of(built(nodes, replicas))))


def test_workers_are_all_replicas_with_backend_mpi(wording: Wording) -> None:
    assert [*problems_of(built(None, {"n_workers": 4, "per_node": 2}, backend="mpi"))] == []
    wording(map(str, problems_of(built(2, {"n_workers": 1}, backend="mpi"))))


@pytest.mark.parametrize(("nodes", "per_node", "fits"), [(2, None, False), (4, 1, True), (None, 2, False)])
def test_a_command_that_starts_the_processes_of_a_node(
    nodes: int | None, per_node: int | None, *, fits: bool
) -> None:
    run = {"cmd": "torchrun --nnodes 4 --nproc_per_node 2 t.py"}
    found = problems_of(built(nodes, {"n_workers": 3, "per_node": per_node}, run=run))
    message = "torchrun starts the processes of a node itself: each replica has one of its own"
    path = NODES if nodes else PER_NODE
    assert [(problem.message, problem.path) for problem in found] == ([] if fits else [(message, path)])


def test_the_keys_that_a_file_has() -> None:
    assert NodeCounts.of(built(2, {"n_workers": 3})) == (2, None)
    assert NodeCounts.of(Experiment(run=built(1, {}).run)).paths == ()
    assert NodeCounts(1, 1).paths == (NODES, PER_NODE)

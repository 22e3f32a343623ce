"""What is wrong with a number of nodes, by the file alone."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.node_counts import NODES, PER_NODE, NodeCounts
from hpcdist.experiment.problems import problems_of

EVERY = {"n_workers": 3, "n_ps": 2, "evaluator": {}}
FOUR = "there are 4: the master and 3 workers"


def built(nodes: int | None, replicas: dict[str, Any], **data: Any) -> Experiment:
    keys = {"run": {"cmd": "true"}, "batch": {"nodes": nodes}, "environment": {"replicas": replicas}}
    keys |= {"framework": "mpi"} if len(replicas) else {}
    experiment, problems = fields.build(Experiment, keys | data)
    assert problems == []
    assert experiment is not None
    return experiment


@pytest.mark.parametrize(
    ("nodes", "replicas", "problems"),
    [
        (2, {"n_workers": 3}, []),
        (3, {"n_workers": 3}, []),
        (2, {"n_workers": 3, "per_node": 2}, []),
        (None, EVERY | {"per_node": 7}, []),
        (None, {"n_workers": 999_999, "per_node": 4}, []),
        (0, {}, ["batch.nodes: 0 is out of range; write a number from 1 to 1000000"]),
        (None, {"per_node": -1},
         ["environment.replicas.per_node: -1 is out of range; write a number from 1 to 1000000"]),
        (5, {"n_workers": 3}, [f"batch.nodes: 5 nodes need a replica each, and {FOUR}; write `n_workers: 4`"]),
        (2, {}, ["batch.nodes: 2 nodes need a replica each, and there is 1: the master; write a `framework` and `n_workers: 1`"]),
        (4, {"n_workers": 3, "per_node": 2},
         [f"batch.nodes: `nodes: 4` times `per_node: 2` is 8, and {FOUR}; write `n_workers: 7` or `nodes: 2`"]),
        (2, {"n_workers": 3, "per_node": 3},
         [f"batch.nodes: `nodes: 2` times `per_node: 3` is 6, and {FOUR}; write `n_workers: 5`"]),
        (None, {"n_workers": 4, "per_node": 2},
         ["environment.replicas.per_node: replicas cannot be 2 on each node: there are 5: the master and 4 workers; write `n_workers: 3` or `n_workers: 5` or `batch: {nodes: 3}` in its place"]),
        (None, EVERY | {"per_node": 8},
         ["environment.replicas.per_node: replicas cannot be 8 on each node: there are 7: the master, 3 workers, 2 parameter servers and the evaluator; write `n_workers: 4`"]),
        (1, {"n_ps": 2, "per_node": 1},
         ["batch.nodes: `nodes: 1` times `per_node: 1` is 1, and there are 3: the master and 2 parameter servers; write `nodes: 3`"]),
    ],
)  # fmt: skip
def test_nodes_and_replicas_that_contradict(
    nodes: int | None, replicas: dict[str, Any], problems: list[str]
) -> None:
    assert [str(problem) for problem in problems_of(built(nodes, replicas))] == problems


def test_workers_are_all_replicas_with_backend_mpi() -> None:
    assert [*problems_of(built(None, {"n_workers": 4, "per_node": 2}, backend="mpi"))] == []
    (problem,) = problems_of(built(2, {"n_workers": 1}, backend="mpi"))
    assert problem.message == "2 nodes need a replica each, and there is 1: 1 worker"
    assert problem.hint == "write `n_workers: 2`"


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

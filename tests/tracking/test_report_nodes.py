"""The placement as a map of nodes."""

from __future__ import annotations

from typing import Any

from hpcdist.plan.placement import Group, Placement, Row
from hpcdist.tracking import report_data
from hpcdist.tracking.report_data import Card, Chip, Map


def placed(count: int, per_node: int = 1) -> Placement:
    """Return a master on the first node, and workers on it and all others, each with a GPU."""
    row: dict[str, Any] = {
        "tasks_per_replica": 1,
        "local_rank": 0,
        "cpu": 0,
        "cpus": 2,
        "gpu": 0,
        "gpus": 1,
        "index": 0,
    }
    master = Row(role="master", rank=0, tasks=1, tasks_per_node=1, node=0, **row)
    workers = Row(role="worker", rank=1, tasks=(count - 1) * per_node, tasks_per_node=per_node, node=1, **row)
    group = Group(
        partition="gpu", node_type="a100", gpu_type=None, constraint=None, node=0, nodes=count, rank=0,
        tasks=1, tasks_per_node=per_node, cpus_per_task=2, cpus=8, gpus=4, memory=None, gpus_per_task=1,
        even=True,
    )  # fmt: skip
    return Placement(groups=(group,), rows=(master, workers))


def test_each_node_is_a_card_with_its_tasks() -> None:
    assert report_data.node_map(placed(2, 2), ["n1", "n2"], 2, 400) == Map(
        cards=[
            Card(0, "n1", (Chip(0, "master", 0, 2, (0,)),)),
            Card(1, "n2", (Chip(1, "worker 0", 1, 2, (0,)), Chip(2, "worker 1", 1, 2, (1,), failed=True))),
        ],
        roles=[("master", "1"), ("worker", "2")],
        groups=["nodes 0-1: partition gpu, a100 nodes"],
    )


def test_of_many_nodes_that_look_alike_the_first_and_the_last_are_drawn() -> None:
    found = report_data.node_map(placed(2000), [], None, 400)
    assert [(card.node, card.more) for card in found.cards] == [(0, 0), (1, 0), (-1, 1997), (1999, 0)]
    assert found.left_out == 0


def test_of_many_tasks_that_look_alike_the_first_and_the_last_are_drawn() -> None:
    [_, card] = report_data.node_map(placed(2, 100), [], None, 400).cards
    assert [(chip.rank, chip.more) for chip in card.chips] == [(1, 0), (-1, 98), (100, 0)]


def test_nodes_that_differ_are_bounded() -> None:
    rows = tuple(
        Row(
            role="worker", index=node, rank=node, tasks=1, tasks_per_replica=1, tasks_per_node=1, node=node,
            local_rank=0, cpu=0, cpus=1 + node % 2, gpu=0, gpus=0,
        )
        for node in range(2000)
    )  # fmt: skip
    groups = placed(2000).groups
    found = report_data.node_map(Placement(groups=groups, rows=rows), [], None, 400)
    assert (len(found.cards), found.left_out) == (60, 1940)


def test_of_nodes_with_many_tasks_fewer_are_drawn() -> None:
    """At least one, though: that of the master here."""
    found = report_data.node_map(placed(3, 7), [], None, 9)
    assert ([card.node for card in found.cards], found.left_out) == ([0, 1], 1)
    found = report_data.node_map(placed(3, 7), [], None, 0)
    assert ([card.node for card in found.cards], found.left_out) == ([0], 2)

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpcdist.errors import Problem
from hpcdist.experiment.replica import Block, Replica
from hpcdist.layers.protocols import Topology
from hpcdist.planner.feasibility import (
    PlacementRequest,
    Refusal,
    counted,
    nearness,
    nodes_on,
    refusals_in,
    title,
    try_placement,
)
from hpcdist.planner.pools import Shortfall, pools
from hpcdist.units import Walltime
from tests.experiments import where
from tests.sites import site

SITE = site(
    node_types={"n": {"cpus": 4}},
    partitions={"p": {"nodes": {"n": 8}, "min_nodes": 2, "max_walltime": "1h"}, "q": {"nodes": {"n": 99}}},
)
SMALL, LARGE = pools(SITE)


def request(count: int, cpus: int = 2, walltime: str | None = None) -> PlacementRequest:
    """Return a request for equal workers."""
    worker = Replica("worker", 0, 1, 0, cpus, None, (), ("environment", "resources"))
    asked = Walltime.parse(walltime) if walltime else None
    return PlacementRequest([Block(worker, count)], SITE, asked, Topology(), where)


def test_job_that_fits_is_placed() -> None:
    placement, refusals = try_placement(request(8), [SMALL])
    assert placement
    assert (placement.nodes, placement.size, refusals) == (4, 8, [])


@pytest.mark.parametrize(
    ("asked", "refusals"),
    [
        (
            request(8, cpus=5),
            [
                (
                    "partition p (n nodes) has 4 CPUs a node, 5 requested by worker 0",
                    Shortfall("CPUs", 4, 5),
                    0,
                )
            ],
        ),
        (request(8, walltime="2h"), [("partition p (n nodes) allows 01:00:00, 02:00:00 requested", None, 0)]),
        (request(2), [("partition p (n nodes) requires at least 2 nodes, this job needs 1", None, 1)]),
        (
            request(18),
            [("partition p (n nodes) gives a job 8 nodes, 9 are needed (2 tasks a node)", None, 9)],
        ),
    ],
)
def test_reasons_for_a_refusal(
    asked: PlacementRequest, refusals: list[tuple[str, Shortfall | None, int]]
) -> None:
    found = refusals_in(asked, SMALL)
    assert [(refusal.problem.message, refusal.shortfall, refusal.nodes) for refusal in found] == refusals
    assert {refusal.pool for refusal in found} == {SMALL}
    assert [refusal.problem.hint for refusal in found] == [""]


def test_nodes_on_ignores_the_size_of_the_pool() -> None:
    assert nodes_on(request(1000), SMALL) == 500


@pytest.mark.parametrize(
    ("refusals", "near"),
    [
        ([Refusal(Problem("too many"), LARGE, nodes=100)], (2, 99)),
        ([Refusal(Problem("too many"), SMALL, nodes=9)], (2, 8)),
        ([Refusal(Problem("too long"), LARGE, walltime=Walltime(9))], (1, 99)),
        ([Refusal(Problem("too long"), SMALL, nodes=9, walltime=Walltime(9))], (2, 8)),
        (
            [Refusal(Problem("too long"), LARGE, walltime=Walltime(9)), Refusal(Problem("odd"), LARGE)],
            (0, 0),
        ),
        ([Refusal(Problem("odd"))], (0, 0)),
    ],
)
def test_refusals_are_ranked(refusals: Sequence[Refusal], near: tuple[int, int]) -> None:
    assert nearness(refusals) == near


def test_words() -> None:
    assert (title(SMALL), title(pools(site())[0])) == ("partition p (n nodes)", "the site")
    assert (counted(1, "node"), counted(2, "node")) == ("1 node", "2 nodes")

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpcdist.base.errors import Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.replicas import Block, Replica
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
from tests.experiments import where
from tests.sites import site
from tests.wording import Wording

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
    ("asked", "shortfall", "nodes"),
    [
        pytest.param(request(8, cpus=5), Shortfall("CPUs", 4, 5), 0, id="too few CPUs"),
        pytest.param(request(8, walltime="2h"), None, 0, id="too long"),
        pytest.param(request(2), None, 1, id="too few nodes asked for"),
        pytest.param(request(18), None, 9, id="too few nodes"),
    ],
)
def test_reasons_for_a_refusal(
    asked: PlacementRequest, shortfall: Shortfall | None, nodes: int, wording: Wording
) -> None:
    found = refusals_in(asked, SMALL)
    assert [(refusal.shortfall, refusal.nodes) for refusal in found] == [(shortfall, nodes)]
    assert {refusal.pool for refusal in found} == {SMALL}
    wording(str(refusal.problem) for refusal in found)


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

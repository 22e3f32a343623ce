from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.errors import PlanError
from hpcdist.experiment.replicas import NodeCounts
from hpcdist.planner.placement import NodeRun, node_sizes, place
from hpcdist.planner.pools import Need
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from tests.experiments import environment, resources
from tests.planner.test_placement import CPU, UNKNOWN, crowd, jobs
from tests.plans import planned
from tests.sites import site, site_named
from tests.wording import Wording

SITE = site(
    node_types={"big": {"cpus": 16, "gpus": 4}, "bare": {"cpus": 16}},
    partitions={"gpu": {"nodes": {"big": 8}}, "cpu": {"nodes": {"bare": 8}}},
)


def sizes(counts: NodeCounts, *members: Any) -> list[list[NodeRun]]:
    """Return the sizes of nodes, where each of these is alone in its pool."""
    return node_sizes([[member] for member in members], counts, spread=False)


def test_equal_replicas_are_distributed_evenly() -> None:
    one = crowd("worker", 7, Need(1, 4, 1))
    assert sizes(NodeCounts(nodes=3), one) == [[NodeRun(1, 3), NodeRun(2, 2)]]
    assert sizes(NodeCounts(nodes=7), one) == [[NodeRun(7, 1)]]
    assert sizes(NodeCounts(nodes=1), one) == [[NodeRun(1, 4), NodeRun(1, 3)]]  # that do not fit on one
    assert sizes(NodeCounts(per_node=1), one) == [[NodeRun(7, 1)]]


def test_a_million_replicas_are_as_fast_as_ten() -> None:
    many, other = crowd("worker", 1_000_000, Need(1, 4, 1)), crowd("ps", 2, Need(1, 1), CPU)
    assert sizes(NodeCounts(nodes=999_999), many) == [[NodeRun(1, 2), NodeRun(999_998, 1)]]
    assert sizes(NodeCounts(nodes=500_001), many, other) == [[NodeRun(500_000, 2)], [NodeRun(1, 2)]]


def test_nodes_are_shared_by_pools_so_that_none_is_fuller_than_needed() -> None:
    four, three = crowd("worker", 4, Need(1, 4, 1)), crowd("ps", 3, Need(1, 1), CPU)
    for nodes, found in ((2, [1, 1]), (3, [2, 1]), (4, [2, 2]), (6, [4, 2]), (7, [4, 3])):
        shares = [sum(run.nodes for run in runs) for runs in sizes(NodeCounts(nodes=nodes), four, three)]
        assert shares == found


def test_unequal_replicas_are_alike_in_number_where_that_fits() -> None:
    members = [crowd("master", 1, Need(1, 1)), crowd("worker", 5, Need(1, 1, 1))]
    assert node_sizes([members], NodeCounts(nodes=3), spread=False) == [[NodeRun(3, 2)]]
    large = [crowd("master", 1, Need(1, 1, 4)), crowd("worker", 4, Need(1, 1, 1))]
    assert node_sizes([large], NodeCounts(nodes=2), spread=False) == [[NodeRun(1, 1), NodeRun(1, 4)]]
    found = node_sizes([large], NodeCounts(nodes=4), spread=False)[0]
    assert found == [NodeRun(1, 1), NodeRun(2, 1), NodeRun(1, 2)]


@given(jobs(), st.data())
def test_there_are_as_many_nodes_as_asked_for(crowds: list[Any], data: st.DataObject) -> None:
    least, total = place(crowds).nodes, sum(crowd.count for crowd in crowds)
    nodes = data.draw(st.integers(least, total))
    found = place(crowds, NodeCounts(nodes=nodes))
    assert (found.nodes, sum(found.replicas(role) for role in ("master", "worker", "ps"))) == (nodes, total)
    for group in found.groups:
        pool = next(crowd.pool for crowd in crowds if crowd.pool.partition == group.site_partition)
        used = Need(0, group.cpus, group.gpus, group.memory)
        assert [*pool.shortfalls(used)] == []


def test_nodes_of_unknown_size_take_what_the_file_says() -> None:
    members = [crowd("worker", 9, Need(1, 1), UNKNOWN)]
    assert node_sizes([members], NodeCounts(per_node=3), spread=False) == [[NodeRun(3, 3)]]


# --- on a site


def plan_of(
    machine: Site = SITE, *, per_node: int | None = None, nodes: int | None = None, **more: Any
) -> Any:
    asked: dict[str, Any] = {"workers": 3, "each": resources(gpu=1)}
    section = environment(**asked | more)
    section["replicas"]["per_node"] = per_node
    return planned(machine, framework="tensorflow", environment=section, batch={"nodes": nodes})


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        ({}, [4]),
        ({"nodes": 2}, [2, 2]),
        ({"nodes": 3}, [2, 1, 1]),
        ({"per_node": 1}, [1, 1, 1, 1]),
        ({"per_node": 2, "nodes": 2}, [2, 2]),
        ({"workers": 7, "nodes": 2}, [4, 4]),
    ],
)
def test_a_plan_has_as_many_nodes(asked: dict[str, Any], nodes: list[int]) -> None:
    plan = plan_of(**asked)
    found = [tasks for number, tasks in plan.placement.tasks_per_node() for _ in range(number)]
    assert found == nodes
    keys = {"nodes": "batch.nodes", "per_node": "environment.replicas.per_node"}
    named = " and ".join(f"exp.yml {key}" for name, key in keys.items() if name in asked)
    assert str(plan.origins.get("nodes", "")) == named


@pytest.mark.parametrize(
    "asked",
    [
        {"each": resources(cpu=1, gpu=1), "per_node": 5},
        {"nodes": 2},
        {"nodes": 9},
    ],
    ids=str,
)
def test_what_the_nodes_of_a_site_do_not_have_is_refused(asked: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(workers=9, **asked)
    wording(str(caught.value))


def test_servers_apart_only_where_all_nodes_are_alike() -> None:
    own = {"default_worker": {"resources": resources(gpu=1)}, "per_node": 2}
    for workers, servers, partitions in ((2, 1, ["gpu"]), (3, 2, ["gpu", "cpu"])):
        section = {"resources": resources(gpu=1), "replicas": own | {"n_workers": workers, "n_ps": servers}}
        groups = planned(SITE, framework="tensorflow", environment=section).placement.groups
        assert [group.site_partition for group in groups] == partitions


def test_nodes_that_cannot_be_alike(wording: Wording) -> None:
    own = {"node_selector": {"partition": "cpu"}}
    section = {"replicas": {"n_workers": 5, "per_node": 2, "default_worker": own}}
    section |= {"node_selector": {"partition": "gpu"}}
    with pytest.raises(PlanError) as caught:
        planned(SITE, framework="mpi", environment=section)
    wording(str(caught.value))


@pytest.mark.parametrize("name", [name for name in schedulers.names() if name != "local"])
def test_every_batch_system_is_asked_for_these_nodes(name: str) -> None:
    plan = plan_of(site_named(name), nodes=2)
    text = " ".join(f"{line.flag} {line.value}" for line in plan.directives)
    number = {
        "slurm": "--nodes 2 .*--ntasks-per-node 2",
        "pbs": "-l select 2:ncpus=2:mpiprocs=2:ngpus=2 -l place scatter",
        "lsf": r"-n 4 .*span\[ptile=2\]",
        "flux": "--nodes 2 --nslots 2",
        "sge": "-pe mpi 4",
    }
    assert re.search(number[name], text), text
    assert "each replica gets a node of its own" not in str(plan.notes)


def test_one_machine_has_one_node(wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(site_named("local"), nodes=2, each=resources(cpu=1))
    wording(str(caught.value))

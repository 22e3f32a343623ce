from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcdist.experiment.replicas import ANY_NODES
from hpcdist.plan.placement import Group, Placement, Row, Task
from hpcdist.plan.values import DEFAULT, Origin
from hpcdist.planner.placement import ReplicaGroup, by_node, node_sizes, place
from hpcdist.planner.pools import UNLIMITED, Need, Pool

BIG = Pool(
    partition="gpu",
    submit_as="gpu-queue",
    node_type="a100",
    gpu_type="a100",
    constraint="fast",
    cpus=16,
    gpus=4,
    memory=64000,
    nodes=100,
    origin=Origin("site", "x", "partitions.gpu"),
)
CPU = replace(BIG, partition="cpu", submit_as="cpu", node_type="cpu", gpu_type=None, cpus=8, gpus=0)
UNKNOWN = Pool(None, None, None, None, None, None, None, None, UNLIMITED, DEFAULT)


def crowd(role: str, count: int, need: Need, pool: Pool = BIG, index: int = 0) -> ReplicaGroup:
    return ReplicaGroup(role, index, count, need, pool, Origin("place", f"exp.yml:{role}"))


def nodes_of(*crowds: ReplicaGroup, spread: bool = False) -> list[list[str]]:
    """Return the replicas on each node: ``m0``, ``w3``."""
    found: dict[int, dict[str, None]] = defaultdict(dict)
    for task in place(crowds, spread=spread).tasks:
        found[task.node][f"{task.role[0]}{task.index}"] = None
    return [list(replicas) for _, replicas in sorted(found.items())]


def test_rows_and_groups_of_a_small_job() -> None:
    crowds = [crowd("master", 1, Need(2, 4, 2, 1000)), crowd("worker", 2, Need(2, 4, 2, 1000))]
    assert place(crowds) == Placement(
        groups=(
            Group(
                partition="gpu-queue",
                node_type="a100",
                gpu_type="a100",
                constraint="fast",
                node=0,
                nodes=2,
                rank=0,
                tasks=6,
                tasks_per_node=4,
                cpus_per_task=2,
                cpus=8,
                gpus=4,
                memory=2000,
                gpus_per_task=1,
                even=False,
                site_partition="gpu",
                origin=Origin("site", "x", "partitions.gpu"),
            ),
        ),
        rows=(
            row("master", 0, 0, node=0, local_rank=0, cpu=0, gpu=0),
            row("worker", 0, 2, node=0, local_rank=2, cpu=4, gpu=2),
            row("worker", 1, 4, node=1, local_rank=0, cpu=0, gpu=0),
        ),
    )


def row(role: str, index: int, rank: int, **place: Any) -> Row:
    """Return a row of one replica with two tasks."""
    return Row(
        role=role,
        index=index,
        rank=rank,
        tasks=2,
        tasks_per_replica=2,
        tasks_per_node=2,
        cpus=2,
        gpus=1,
        memory=500,
        origin=Origin("place", f"exp.yml:{role}"),
        **place,
    )


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (4, [4]), (5, [3, 2]), (8, [4, 4]), (9, [3, 3, 3]), (10, [4, 3, 3])]
)
def test_equal_replicas_fill_nodes_evenly(count: int, sizes: list[int]) -> None:
    assert [len(node) for node in nodes_of(crowd("worker", count, Need(1, 4, 1)))] == sizes


@pytest.mark.parametrize(
    ("crowds", "nodes"),
    [
        # Nodes are filled alike, not the first one to the brim.
        ([crowd("master", 1, Need(1, 2)), crowd("worker", 3, Need(1, 7))], [["m0", "w0"], ["w1", "w2"]]),
        ([crowd("master", 1, Need(1, 16)), crowd("worker", 2, Need(1, 8))], [["m0"], ["w0", "w1"]]),
        ([crowd("master", 1, Need(1, 3)), crowd("worker", 6, Need(1, 4))],
         [["m0", "w0", "w1", "w2"], ["w3", "w4", "w5"]]),
        ([crowd("worker", 1, Need(1, 1)), crowd("worker", 1, Need(1, 2), index=1)], [["w0", "w1"]]),
    ],
)  # fmt: skip
def test_unequal_replicas(crowds: list[ReplicaGroup], nodes: list[list[str]]) -> None:
    assert nodes_of(*crowds) == nodes


def test_spread_gives_each_replica_a_node() -> None:
    assert nodes_of(crowd("master", 1, Need(1, 1)), crowd("worker", 2, Need(1, 1)), spread=True) == [
        ["m0"],
        ["w0"],
        ["w1"],
    ]


def test_where_nothing_is_known_of_nodes_each_replica_gets_one() -> None:
    assert nodes_of(crowd("worker", 2, Need(1, 1), UNKNOWN)) == [["w0"], ["w1"]]
    assert nodes_of(crowd("worker", 9, Need(1, 1), replace(UNKNOWN, nodes=1))) == [
        [f"w{n}" for n in range(9)]
    ]


def test_different_pools_are_different_groups() -> None:
    crowds = [
        crowd("master", 1, Need(1, 2, 0, None), CPU),
        crowd("worker", 8, Need(1, 4, 1, None)),
        crowd("ps", 2, Need(1, 8, 0, None), CPU),
    ]
    shapes = [
        (
            group.site_partition,
            group.node,
            group.nodes,
            group.rank,
            group.tasks,
            group.tasks_per_node,
            group.even,
        )
        for group in place(crowds).groups
    ]
    assert shapes == [
        ("cpu", 0, 1, 0, 1, 1, True),
        ("gpu", 1, 2, 1, 8, 4, True),
        ("cpu", 3, 2, 9, 2, 1, True),
    ]


def test_tasks_that_share_gpus() -> None:
    placement = place([crowd("worker", 2, Need(4, 4, 2))])
    assert [task.gpus for task in placement.tasks] == [(0,), (0,), (1,), (1,), (2,), (2,), (3,), (3,)]
    assert placement.groups[0].gpus == 4


def test_tasks_with_several_gpus() -> None:
    placement = place([crowd("worker", 2, Need(1, 4, 2))])
    assert [task.gpus for task in placement.tasks] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("needs", "even", "gpus_per_task"),
    [
        ([Need(1, 4, 1), Need(1, 4, 1)], True, 1),
        ([Need(1, 4, 1), Need(1, 4, 2)], True, None),
        ([Need(1, 4, 1), Need(1, 2, 1)], False, 1),
        ([Need(1, 4, 1), Need(2, 8, 2)], True, 1),
    ],
)
def test_even_means_equal_cpus_and_as_many_on_each_node(
    needs: list[Need],
    even: bool,  # noqa: FBT001 - a table
    gpus_per_task: int | None,
) -> None:
    crowds = [crowd("worker", 1, need, index=index) for index, need in enumerate(needs)]
    placement = place(crowds)
    assert (placement.is_even, placement.groups[0].gpus_per_task) == (even, gpus_per_task)


@pytest.mark.parametrize(
    ("count", "runs"), [(8, [(2, 4)]), (9, [(3, 3)]), (10, [(1, 4), (2, 3)]), (1, [(1, 1)])]
)
def test_tasks_per_node_in_runs(count: int, runs: list[tuple[int, int]]) -> None:
    assert list(place([crowd("worker", count, Need(1, 4, 1))]).tasks_per_node()) == runs


def test_size_of_a_placement_is_that_of_its_distinct_nodes() -> None:
    pool = replace(BIG, nodes=UNLIMITED)
    placement = place([crowd("master", 1, Need(1, 4, 1), pool), crowd("worker", 99_999, Need(1, 4, 1), pool)])
    assert (placement.size, placement.nodes, len(placement.rows)) == (100_000, 25_000, 3)
    odd = place([crowd("master", 1, Need(1, 5, 1), pool), crowd("worker", 99_999, Need(1, 4, 1), pool)])
    assert (odd.size, len(odd.rows) < 10) == (100_000, True)


# --- One task a node


def test_all_tasks_of_a_node_become_one_that_starts_them() -> None:
    workers = place([crowd("master", 1, Need(2, 4, 2, 1000)), crowd("worker", 4, Need(2, 4, 2, 1000))])
    assert [list(runs) for runs in (workers.tasks_per_node(), by_node(workers).tasks_per_node())] == [
        [(2, 4), (1, 2)],
        [(3, 1)],
    ]
    assert by_node(workers) == Placement(
        groups=(
            replace(
                workers.groups[0],
                tasks=3,
                tasks_per_node=1,
                cpus_per_task=8,
                gpus_per_task=None,
                even=False,
            ),
        ),
        rows=(
            node("master", 0, 0, tasks=1, processes=4, gpus=4),
            node("worker", 0, 1, tasks=1, processes=4, gpus=4, origin=Origin("place", "exp.yml:worker")),
            node("worker", 1, 2, tasks=1, processes=2, gpus=2, origin=Origin("place", "exp.yml:worker")),
        ),
    )


MASTER = Origin("place", "exp.yml:master")


def node(role: str, index: int, first: int, origin: Origin = MASTER, **size: Any) -> Row:
    """Return a row of tasks, one a node, each with two CPUs and 500 MiB a process."""
    return Row(
        role=role,
        index=index,
        rank=first,
        tasks_per_replica=1,
        tasks_per_node=1,
        node=first,
        local_rank=0,
        cpu=0,
        cpus=2 * size["processes"],
        gpu=0,
        memory=500 * size["processes"],
        origin=origin,
        **size,
    )


def test_equal_nodes_stay_one_row() -> None:
    pool = replace(BIG, nodes=UNLIMITED)
    many = by_node(
        place([crowd("worker", 99_999, Need(1, 4, 1), pool), crowd("worker", 1, Need(1, 4, 1), pool)])
    )
    assert [(row.role, row.tasks, row.processes) for row in many.rows] == [
        ("master", 1, 4),
        ("worker", 24_998, 4),
        ("worker", 1, 4),
    ]
    assert (many.is_even, many.groups[0].gpus_per_task) == (True, 4)


def test_no_memory_request() -> None:
    (only,) = by_node(place([crowd("master", 1, Need(1, 4, 1, None))])).tasks
    assert only.memory is None


def test_a_task_a_node_in_several_components() -> None:
    crowds = [crowd("master", 1, Need(1, 2), CPU), crowd("worker", 8, Need(1, 4, 1))]
    groups = by_node(place(crowds)).groups
    assert [(group.site_partition, group.node, group.nodes, group.rank, group.tasks) for group in groups] == [
        ("cpu", 0, 1, 0, 1),
        ("gpu", 1, 2, 1, 2),
    ]
    assert [(group.even, group.cpus_per_task, group.gpus_per_task) for group in groups] == [
        (True, 2, 0),
        (True, 16, 4),
    ]


# --- Properties


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    return replace(
        BIG,
        partition=name,
        cpus=draw(st.none() | st.integers(1, 40)),
        gpus=draw(st.none() | st.integers(0, 8)),
        memory=draw(st.none() | st.integers(1, 4000)),
        nodes=draw(st.sampled_from([1, UNLIMITED])),
    )


@st.composite
def needs(draw: st.DrawFn, pool: Pool) -> Need:
    tasks = draw(st.integers(1, min(4, pool.cpus or 4)))
    each = draw(st.integers(1, (pool.cpus or 16) // tasks))
    most = 8 if pool.gpus is None else pool.gpus
    gpus = draw(st.sampled_from([n for n in range(most + 1) if n == 0 or max(n, tasks) % min(n, tasks) == 0]))
    return Need(tasks, each * tasks, gpus, draw(st.integers(0, pool.memory or 1000)))


@st.composite
def jobs(draw: st.DrawFn) -> list[ReplicaGroup]:
    available = [draw(pools("a")), draw(pools("b"))]
    crowds: list[ReplicaGroup] = []
    for role in draw(st.lists(st.sampled_from(["master", "worker", "ps"]), min_size=1, max_size=4)):
        pool = draw(st.sampled_from(available))
        index = sum(other.count for other in crowds if other.role == role)
        crowds.append(crowd(role, draw(st.integers(1, 12)), draw(needs(pool)), pool, index))
    return crowds


def tasks_one_by_one(crowds: Sequence[ReplicaGroup], sizes: Sequence[int]) -> list[Task]:
    """Hand out CPUs and GPUs task by task, given how many replicas each node takes."""
    node_of_each = [node for node, size in enumerate(sizes) for _ in range(size)]
    tasks: list[Task] = []
    used: dict[int, Need] = defaultdict(lambda: Need(0))
    replicas = [(crowd, number) for crowd in crowds for number in range(crowd.count)]
    for node, (member, number) in zip(node_of_each, replicas, strict=True):
        need = member.need
        for at in range(need.tasks):
            cpus = need.cpus // need.tasks
            first_gpu = used[node].gpus + at * need.gpus // need.tasks
            tasks.append(
                Task(
                    rank=len(tasks),
                    role=member.role,
                    index=member.index + number,
                    node=node,
                    local_rank=used[node].tasks + at,
                    cpus=tuple(range(used[node].cpus + at * cpus, used[node].cpus + (at + 1) * cpus)),
                    gpus=tuple(range(first_gpu, first_gpu + math.ceil(need.gpus / need.tasks))),
                    memory=(need.memory or 0) // need.tasks,
                )
            )
        used[node] = used[node].plus(need)
    return tasks


def sizes_of(crowds: Sequence[ReplicaGroup], *, spread: bool) -> list[int]:
    members = [list(group) for _, group in groupby(crowds, key=lambda crowd: crowd.pool)]
    runs = [run for sizes in node_sizes(members, ANY_NODES, spread=spread) for run in sizes]
    return [run.size for run in runs for _ in range(run.nodes)]


@given(jobs(), st.booleans())
def test_rows_unfold_to_the_tasks(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    placement = place(crowds, spread=spread)
    assert list(placement.tasks) == tasks_one_by_one(crowds, sizes_of(crowds, spread=spread))
    assert len(list(placement.tasks)) == placement.size


@given(jobs(), st.booleans())
def test_placement_invariants(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    placement = place(crowds, spread=spread)
    tasks = list(placement.tasks)
    assert [task.rank for task in tasks] == list(range(placement.size))
    assert [task.node for task in tasks] == sorted(task.node for task in tasks)
    assert {task.node for task in tasks} == set(range(placement.nodes))
    homes: dict[tuple[str, int], set[int]] = defaultdict(set)
    for task in tasks:
        homes[task.role, task.index].add(task.node)
    assert {len(nodes) for nodes in homes.values()} == {1}
    for _, members in groupby(tasks, key=lambda task: task.node):
        local_ranks = [task.local_rank for task in members]
        assert local_ranks == list(range(len(local_ranks)))


@given(jobs(), st.booleans())
def test_no_node_gives_more_than_it_has(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    placement = place(crowds, spread=spread)
    pool_of = {
        node: pool
        for pool, group in zip(runs_of(crowds), placement.groups, strict=True)
        for node in range(group.node, group.node + group.nodes)
    }
    for node, members in groupby(placement.tasks, key=lambda task: task.node):
        here, pool = list(members), pool_of[node]
        cpus = [cpu for task in here for cpu in task.cpus]
        assert len(set(cpus)) == len(cpus)
        assert pool.cpus is None or max(cpus) < pool.cpus
        gpus = {gpu for task in here for gpu in task.gpus}
        assert pool.gpus is None or len(gpus) <= pool.gpus
        assert gpus == set(range(len(gpus)))
        if not any(row.tasks_per_gpu > 1 for row in placement.rows):
            assert sum(len(task.gpus) for task in here) == len(gpus)
        assert pool.memory is None or sum(task.memory or 0 for task in here) <= pool.memory


def runs_of(crowds: Sequence[ReplicaGroup]) -> list[Pool]:
    return [pool for pool, _ in groupby(crowds, key=lambda crowd: crowd.pool)]


@given(jobs())
def test_there_are_as_few_nodes_as_the_order_allows(crowds: list[ReplicaGroup]) -> None:
    expected = 0
    for pool, members in groupby(crowds, key=lambda crowd: crowd.pool):
        used: Need | None = None
        for need in [member.need for member in members for _ in range(member.count)]:
            if used is None or not fits(pool, used, need):
                used = Need(0)
                expected += 1
            used = used.plus(need)
    assert place(crowds).nodes == expected


def fits(pool: Pool, used: Need, need: Need) -> bool:
    """Tell whether a node takes one more; where its size is not known, only if it is the only node."""
    load = used.plus(need)
    counted = [
        (size, total)
        for size, total, wanted in (
            (pool.cpus, load.cpus, need.cpus),
            (pool.gpus, load.gpus, need.gpus),
            (pool.memory, load.memory or 0, need.memory),
        )
        if size is not None and wanted
    ]
    return all(total <= size for size, total in counted) if counted else pool.nodes == 1


@given(st.data(), st.integers(1, 200))
def test_equal_replicas_take_the_fewest_nodes_and_differ_by_one(data: st.DataObject, count: int) -> None:
    pool = data.draw(pools("a"))
    need = data.draw(needs(pool))
    placement = place([crowd("worker", count, need, pool)])
    assert placement.nodes == math.ceil(count / pool.capacity(need))
    counts = [tasks for number, tasks in placement.tasks_per_node() for _ in range(number)]
    assert max(counts) - min(counts) in (0, need.tasks)
    assert len(placement.rows) <= 2


@given(jobs(), st.booleans())
def test_groups_cover_all_tasks_and_nodes(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    placement = place(crowds, spread=spread)
    node = rank = 0
    for group in placement.groups:
        tasks = [task for task in placement.tasks if group.node <= task.node < group.node + group.nodes]
        assert (group.node, group.rank, group.tasks) == (node, rank, len(tasks))
        loads = [list(members) for _, members in groupby(tasks, key=lambda task: task.node)]
        assert group.nodes == len(loads)
        assert group.tasks_per_node == max(map(len, loads))
        assert group.cpus == max(sum(len(task.cpus) for task in load) for load in loads)
        assert group.gpus == max(len({gpu for task in load for gpu in task.gpus}) for load in loads)
        assert group.memory == max(sum(task.memory or 0 for task in load) for load in loads)
        sizes = {len(task.cpus) for task in tasks}
        assert group.even == (len(sizes) == 1 and len({len(load) for load in loads}) == 1)
        assert group.cpus_per_task == max(sizes)
        node, rank = node + group.nodes, rank + group.tasks
    assert (node, rank) == (placement.nodes, placement.size)


@given(jobs(), st.booleans())
def test_runs_of_tasks_per_node(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    placement = place(crowds, spread=spread)
    counts = [len(list(members)) for _, members in groupby(placement.tasks, key=lambda task: task.node)]
    runs = [(len(list(members)), count) for count, members in groupby(counts)]
    assert list(placement.tasks_per_node()) == runs


@given(jobs(), st.booleans())
def test_shapes_are_runs_of_nodes_with_the_same_rows(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    placement = place(crowds, spread=spread)
    found = [(shape.node + number, shape) for shape in placement.shapes() for number in range(shape.nodes)]
    assert [node for node, _ in found] == list(range(placement.nodes))
    for node, shape in found:
        assert shape.rows == tuple(row for row in placement.rows if row.node <= node < row.node + row.nodes)
        tasks = [*placement.on_node(node)]
        load = (len({gpu for task in tasks for gpu in task.gpus}), sum(task.memory or 0 for task in tasks))
        assert (shape.tasks, shape.gpus, shape.memory) == (len(tasks), *load)
        assert shape.cpus == sum(len(task.cpus) for task in tasks)


@given(jobs(), st.booleans())
def test_a_task_a_node_takes_what_all_its_tasks_took(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    before = place(crowds, spread=spread)
    after = by_node(before)
    loads = [list(members) for _, members in groupby(before.tasks, key=lambda task: task.node)]
    assert list(after.tasks) == [
        Task(
            rank=number,
            role="worker" if number else "master",
            index=max(0, number - 1),
            node=number,
            local_rank=0,
            cpus=tuple(range(sum(len(task.cpus) for task in load))),
            gpus=tuple(range(len({gpu for task in load for gpu in task.gpus}))),
            memory=sum(task.memory or 0 for task in load),
            processes=len(load),
        )
        for number, load in enumerate(loads)
    ]
    assert sum(task.processes for task in after.tasks) == before.size
    assert (after.size, after.nodes) == (before.nodes, before.nodes)


@given(jobs(), st.booleans())
def test_the_components_of_tasks_a_node(crowds: list[ReplicaGroup], spread: bool) -> None:  # noqa: FBT001 - drawn
    before = place(crowds, spread=spread)
    after = by_node(before)
    for old, group in zip(before.groups, after.groups, strict=True):
        tasks = [task for task in after.tasks if group.node <= task.node < group.node + group.nodes]
        gpus = {len(task.gpus) for task in tasks}
        cpus = {len(task.cpus) for task in tasks}
        assert group == replace(
            old,
            rank=old.node,
            tasks=old.nodes,
            tasks_per_node=1,
            cpus_per_task=max(cpus),
            gpus_per_task=gpus.pop() if len(gpus) == 1 else None,
            even=len(cpus) == 1,
        )

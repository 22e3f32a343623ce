"""Feasibility: whether a job fits these pools of nodes, and the reasons if it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import Path, Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.replicas import ANY_NODES, NODES, PER_NODE, Block, NodeCounts, Replica
from hpcdist.layers.protocols import Topology
from hpcdist.plan.placement import Group, Placement, Row, with_own_nodes
from hpcdist.plan.values import Origin, Where
from hpcdist.planner.gpus import over_share
from hpcdist.planner.placement import ReplicaGroup, by_node, place
from hpcdist.planner.pools import Need, Pool, Shortfall, need_of, with_memory
from hpcdist.site.model import Site

REPLICAS: Path = ("environment", "replicas")


class PlacementRequest(NamedTuple):
    """What a job requests of a site: replicas in rank order, on so many nodes, and a walltime.

    ``where`` returns origins. ``qos``: the QOS that the experiment names, which has its own limits.
    ``own_nodes``: further nodes, for programs next to the tasks. ``account``: which pays for the job.
    """

    runs: Sequence[Block]
    site: Site
    walltime: Walltime | None
    topology: Topology
    where: Where
    counts: NodeCounts = ANY_NODES
    qos: str | None = None
    own_nodes: int = 0
    account: str | None = None

    def is_lifted(self, pool: Pool) -> bool:
        """Whether the pool's limits may not apply: the job has another QOS than the partition's.

        A QOS may allow more than its partition (https://slurm.schedmd.com/qos.html, ``OverPartQOS`` and
        ``PartitionTimeLimit``).
        """
        partition = self.site.partitions.get(pool.partition or "")
        return bool(self.qos and partition and self.qos != partition.qos)


class Refusal(NamedTuple):
    """Why a choice of pools is refused: the pool, and the numbers from which a hint is made.

    ``shortfall``: what ``run`` lacks on a node. ``nodes``: how many are needed, if the ``walltime`` or the
    number of nodes is refused; 0 before they are counted.
    """

    problem: Problem
    pool: Pool | None = None
    shortfall: Shortfall | None = None
    run: Block | None = None
    nodes: int = 0
    walltime: Walltime | None = None

    @property
    def too_large(self) -> bool:
        """Whether the reason is that the pool has too few nodes."""
        return self.pool is not None and not self.walltime and self.nodes > self.pool.nodes


def try_placement(
    request: PlacementRequest, choice: Sequence[Pool]
) -> tuple[Placement | None, list[Refusal]]:
    """Place all tasks on these pools, one pool for each run; else return the refusals."""
    refusals = [*_node_refusals(request, choice), *_time_refusals(request, choice)]
    if refusals:
        return None, refusals
    placement = _placed(request, choice)
    if refusals := [*_count_refusals(request, placement, choice)]:
        return None, refusals
    placement = by_node(placement) if request.topology.task == "node" else placement
    refusals = [*_size_refusals(request, with_own_nodes(placement, request.own_nodes), choice)]
    return (None if refusals else placement), refusals


def refusals_in(request: PlacementRequest, pool: Pool) -> list[Refusal]:
    """Return why this pool cannot take all replicas, empty if it can."""
    return try_placement(request, [pool] * len(request.runs))[1]


def nearness(refusals: Sequence[Refusal]) -> tuple[int, int]:
    """Rank a refused choice: nodes too small (0), walltime too long (1), only too few nodes (2)."""
    stage = min(2 if refusal.nodes else 1 if refusal.walltime else 0 for refusal in refusals)
    return stage, max(refusal.pool.nodes if stage and refusal.pool else 0 for refusal in refusals)


def nodes_on(request: PlacementRequest, pool: Pool) -> int:
    """Return how many nodes of this pool the job needs, whether or not there are so many."""
    return _placed(request, [pool] * len(request.runs)).nodes


def is_within(request: PlacementRequest, pool: Pool) -> bool:
    """Whether the job needs no more nodes and GPUs of this pool than a job may have."""
    placement = _placed(request, [pool] * len(request.runs))
    gpus = sum(group.nodes * group.gpus for group in placement.groups)
    return placement.nodes <= pool.nodes and (pool.max_gpus is None or gpus <= pool.max_gpus)


def title(pool: Pool) -> str:
    """Return the name of a pool for messages."""
    if pool.partition is None:
        return "the site"
    return f"partition {pool.partition}" + (f" ({pool.node_type} nodes)" if pool.node_type else "")


def counted(number: int, what: str) -> str:
    """Write a number of things: ``1 node``, ``2 nodes``."""
    return f"{number} {what}{'s' * (number != 1)}"


def _placed(request: PlacementRequest, choice: Sequence[Pool]) -> Placement:
    if request.counts.paths:
        choice = [replace(pool, packed=True) for pool in choice]
    placed = place(_replica_groups(request, choice), request.counts, spread=request.topology.spread)
    pairs = zip(request.runs, choice, strict=True)
    whole = {(pool.partition, pool.node_type): pool for run, pool in pairs if run.first.all_memory}
    groups = tuple(_with_all_memory(group, whole) for group in placed.groups)
    return replace(placed, groups=groups, rows=tuple(_with_equal_memory(row, groups) for row in placed.rows))


def _with_all_memory(group: Group, whole: Mapping[tuple[str | None, str | None], Pool]) -> Group:
    """Return a group with all memory of its nodes, if these pools have it, and jobs request memory there."""
    pool = whole.get((group.site_partition, group.node_type))
    if pool is None or not pool.request_memory:
        return group
    return replace(group, all_memory=True, memory=pool.shared_memory)


def _with_equal_memory(row: Row, groups: Sequence[Group]) -> Row:
    """Return a row whose tasks have equal parts of all memory of their nodes, if their group has that."""
    group = next(group for group in reversed(groups) if group.node <= row.node)
    if not group.all_memory:
        return row
    return replace(row, memory=group.memory and group.memory // group.tasks_per_node)


def _replica_groups(request: PlacementRequest, choice: Sequence[Pool]) -> list[ReplicaGroup]:
    return [
        ReplicaGroup(run.first.role, run.first.index, run.count, need, pool, _origin(request, run.first))
        for run, need, pool in zip(request.runs, _needs(request, choice), choice, strict=True)
    ]


def _needs(request: PlacementRequest, choice: Sequence[Pool]) -> list[Need]:
    """Return each run's need of a node; if one run, or the site, requests memory, the others get a share."""
    needs = [need_of(run.first, request.site, pool) for run, pool in zip(request.runs, choice, strict=True)]
    shared = any(pool.request_memory == "share" for pool in choice)
    if shared or any(need.memory is not None for need in needs):
        return [with_memory(need, pool) for need, pool in zip(needs, choice, strict=True)]
    return needs


def _origin(request: PlacementRequest, replica: Replica) -> Origin:
    return request.where(replica.path) if replica.path else Origin("site", request.site.name, "replica")


def _node_refusals(request: PlacementRequest, choice: Sequence[Pool]) -> Iterator[Refusal]:
    for run, pool in zip(request.runs, choice, strict=True):
        for shortfall in pool.shortfalls(need_of(run.first, request.site, pool)):
            yield Refusal(_lacking(request.site, pool, shortfall, run), pool, shortfall, run)
        if pool.max_per_gpu and pool.max_per_gpu.over == "refused":
            found = over_share(run.first, pool.max_per_gpu, title(pool))
            yield from (Refusal(problem, pool) for problem in found)
        yield from map(Refusal, _sharing_problems(run.first))


def _lacking(site: Site, pool: Pool, shortfall: Shortfall, run: Block) -> Problem:
    if shortfall.size is None:
        message = f"site {site.name} does not say how many {shortfall.what} its nodes have"
        return Problem(message, run.first.path, f"add `{shortfall.what.lower()}:` to a copy of its file")
    return Problem(f"{title(pool)} has {shortfall} by {run.first.name}", run.first.path)


def _sharing_problems(replica: Replica) -> Iterator[Problem]:
    more, fewer = max(replica.gpus, replica.tasks), min(replica.gpus, replica.tasks)
    if fewer and more % fewer:
        yield Problem(
            f"{replica.gpus} GPUs cannot be shared evenly by the {replica.tasks} processes of {replica.name}",
            replica.path,
            "make one a multiple of the other",
        )


def _time_refusals(request: PlacementRequest, choice: Sequence[Pool], nodes: int = 0) -> Iterator[Refusal]:
    """Yield walltimes that are too long: for any job or, once nodes are counted, for one of that size."""
    for pool in dict.fromkeys(choice):
        partition = request.site.partitions.get(pool.partition or "")
        limit = partition and (partition.walltime_of(nodes) if nodes else partition.longest)
        if request.walltime and limit and request.walltime > limit and not request.is_lifted(pool):
            size = f" to a job of {counted(nodes, 'node')}" if nodes else ""
            message = f"{title(pool)} allows {limit}{size}, {request.walltime} requested"
            problem = Problem(message, ("batch", "walltime"))
            yield Refusal(problem, pool, nodes=nodes, walltime=request.walltime)


def _count_refusals(
    request: PlacementRequest, placement: Placement, choice: Sequence[Pool]
) -> Iterator[Refusal]:
    """Yield why there cannot be as many nodes, or replicas on each, as the file says."""
    nodes, per_node = request.counts
    if per_node:
        yield from dict.fromkeys(_per_node_refusals(placement, choice, per_node))
    elif nodes and placement.nodes > nodes:
        kinds = " and ".join(dict.fromkeys(map(title, choice)))
        message = f"{kinds}: these replicas need at least {placement.nodes} nodes, {nodes} requested"
        yield Refusal(Problem(message, NODES), choice[0], nodes=placement.nodes)


def _per_node_refusals(placement: Placement, choice: Sequence[Pool], per_node: int) -> Iterator[Refusal]:
    for group, shape in ((group, shape) for group in placement.groups for shape in placement.shapes()):
        if not group.node <= shape.node < group.node + group.nodes:
            continue
        kind = (group.site_partition, group.node_type)
        pool = next(pool for pool in choice if (pool.partition, pool.node_type) == kind)
        replicas = sum(row.tasks_per_node // row.tasks_per_replica for row in shape.rows)
        if replicas != per_node:
            message = f"a node of {title(pool)} has {replicas}, since the others are on nodes of another kind"
            hint = f"write `batch: {{nodes: {placement.nodes}}}` in its place"
            yield Refusal(Problem(message, PER_NODE, hint), pool)
            return
        for lacking in pool.shortfalls(Need(shape.tasks, shape.cpus, shape.gpus, shape.memory)):
            yield Refusal(Problem(f"{title(pool)} has {lacking} by {per_node} replicas", PER_NODE), pool)


def _size_refusals(
    request: PlacementRequest, placement: Placement, choice: Sequence[Pool]
) -> Iterator[Refusal]:
    path = next(iter(request.counts.paths), REPLICAS)
    for pool in dict.fromkeys(choice):
        groups = [
            group
            for group in placement.groups
            if (group.site_partition, group.node_type) == (pool.partition, pool.node_type)
        ]
        nodes = sum(group.nodes for group in groups)
        if request.is_lifted(pool):
            continue
        if nodes > pool.nodes:
            each = counted(max(group.tasks_per_node for group in groups), "task")
            message = f"{title(pool)} gives a job {counted(pool.nodes, 'node')}, {nodes} are needed"
            yield Refusal(Problem(f"{message} ({each} a node)", path), pool, nodes=nodes)
        elif nodes < pool.min_nodes:
            message = f"{title(pool)} requires at least {pool.min_nodes} nodes, this job needs {nodes}"
            yield Refusal(Problem(message, path), pool, nodes=nodes)
        elif (gpus := sum(group.nodes * group.gpus for group in groups)) < pool.min_gpus or (
            pool.max_gpus is not None and gpus > pool.max_gpus
        ):
            yield _gpu_refusal(pool, gpus, nodes, path)
        else:
            yield from _time_refusals(request, [pool], nodes)


def _gpu_refusal(pool: Pool, gpus: int, nodes: int, path: Path) -> Refusal:
    few = gpus < pool.min_gpus
    limit = (
        f"requires at least {counted(pool.min_gpus, 'GPU')}" if few else f"gives a job {pool.max_gpus} GPUs"
    )
    return Refusal(Problem(f"{title(pool)} {limit}, {gpus} requested", path), pool, nodes=nodes)

"""Placement: which task sits on which node, with which CPUs and GPUs; arithmetic over equal replicas.

Replicas stay in rank order and a replica is never split; ``node_sizes`` decides how many a node takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from hpcdist.base.fields import Model
from hpcdist.experiment.replicas import ANY_NODES, NodeCounts
from hpcdist.plan.placement import Group, Placement, Row, Shape
from hpcdist.plan.values import Origin
from hpcdist.planner.pools import EMPTY, Need, Pool, memory_in, shared_memory
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType, cpus_of_each_gpu


def place(
    replica_groups: Sequence[ReplicaGroup], counts: NodeCounts = ANY_NODES, *, spread: bool = False
) -> Placement:
    """Place replicas on nodes, numbered from 0; consecutive replica groups of one pool share a node group.

    ``spread`` gives each replica its own node. Every replica must fit its pool's node.
    """
    groups: list[Group] = []
    rows: list[Row] = []
    pools = _by_pool(replica_groups)
    for members, sizes in zip(pools, node_sizes(pools, counts, spread=spread), strict=True):
        node = sum(group.nodes for group in groups)
        rank = sum(row.tasks for row in rows)
        own = _rows(pieces(members, sizes, node), rank)
        rows += own
        groups.append(_group(members[0].pool, own, node, rank))
    return Placement(groups=tuple(groups), rows=tuple(rows))


def by_node(placement: Placement) -> Placement:
    """Merge all tasks of a node into one, which starts ``processes`` processes itself (torchrun)."""
    rows = [folded for shape in placement.shapes() for folded in _on_each(shape)]
    groups = tuple(_of_nodes(group, rows) for group in placement.groups)
    return Placement(groups=groups, rows=tuple(rows))


def _on_each(shape: Shape) -> Iterator[Row]:
    """Yield rows of one task a node, for nodes that are alike; node 0 has the master."""
    row = shape.rows[0]
    node = Row(
        role="worker",
        index=shape.node - 1,
        rank=shape.node,
        tasks=shape.nodes,
        tasks_per_replica=1,
        tasks_per_node=1,
        node=shape.node,
        local_rank=0,
        cpu=0,
        cpus=shape.cpus,
        gpu=0,
        gpus=shape.gpus,
        processes=shape.tasks,
        memory=None if any(one.memory is None for one in shape.rows) else shape.memory,
        origin=row.origin,
    )
    if shape.node == 0:
        yield replace(node, role="master", index=0, tasks=1)
        node = replace(node, index=0, rank=1, node=1, tasks=shape.nodes - 1)
    if node.tasks:
        yield node


def _of_nodes(group: Group, rows: Sequence[Row]) -> Group:
    """Return the group with one of these tasks on each node."""
    own = [row for row in rows if group.node <= row.node < group.node + group.nodes]
    gpus = {row.gpus for row in own}
    return replace(
        group,
        rank=group.node,
        tasks=group.nodes,
        tasks_per_node=1,
        cpus_per_task=max(row.cpus for row in own),
        gpus_per_task=own[0].gpus if len(gpus) == 1 else None,
        even=len({row.cpus for row in own}) == 1,
    )


def beside_gpus(placement: Placement, site: Site, *, exclusive: bool) -> Placement:
    """Give equal tasks the CPUs next to their GPUs, where the site says which those are and they suffice.

    Only on whole nodes: on shared ones it is not known before the job which CPUs it gets.
    """
    rows = [
        replace(row, gpu_cpus=gpu_cpus) if gpu_cpus else row
        for group in placement.groups
        for own in [[row for row in placement.rows if group.node <= row.node < group.node + group.nodes]]
        for gpu_cpus in [_gpu_cpus(group, own, site, exclusive=exclusive)]
        for row in own
    ]
    return replace(placement, rows=tuple(rows))


def _gpu_cpus(group: Group, rows: Sequence[Row], site: Site, *, exclusive: bool) -> tuple[str, ...]:
    node = site.node_types.get(group.node_type or "", NodeType())
    known = node.gpu_cpus if exclusive or (group.cpus, group.gpus) == (node.cpus, node.gpus) else ()
    fewest = min(map(len, cpus_of_each_gpu(known)), default=0)
    suffice = all(0 < row.cpus * row.tasks_per_gpu <= fewest * row.gpus for row in rows)
    return known if suffice and group.even and all(row.processes == 1 for row in rows) else ()


def _by_pool(replica_groups: Sequence[ReplicaGroup]) -> list[list[ReplicaGroup]]:
    members: list[list[ReplicaGroup]] = [[replica_groups[0]]]
    for last, replicas in pairwise(replica_groups):
        if replicas.pool == last.pool:
            members[-1].append(replicas)
        else:
            members.append([replicas])
    return members


def _rows(parts: Iterator[Piece], rank: int) -> list[Row]:
    """Fold pieces that look alike on consecutive nodes into one row."""
    rows: list[Row] = []
    open_piece: Piece | None = None
    nodes = 0
    for piece in parts:
        if open_piece and _continues(open_piece, nodes, piece):
            nodes += piece.nodes
            continue
        if open_piece:
            rows.append(_row(open_piece, nodes, rank))
            rank += rows[-1].tasks
        open_piece, nodes = piece, piece.nodes
    if open_piece:
        rows.append(_row(open_piece, nodes, rank))
    return rows


def _continues(row: Piece, nodes: int, piece: Piece) -> bool:
    return (row.replicas, row.count, row.used, row.node + nodes) == (
        piece.replicas,
        piece.count,
        piece.used,
        piece.node,
    )


def _row(piece: Piece, nodes: int, rank: int) -> Row:
    replicas, need = piece.replicas, piece.replicas.need
    return Row(
        role=replicas.role,
        index=replicas.index + piece.first,
        rank=rank,
        tasks=need.tasks * piece.count * nodes,
        tasks_per_replica=need.tasks,
        tasks_per_node=need.tasks * piece.count,
        node=piece.node,
        local_rank=piece.used.tasks,
        cpu=piece.used.cpus,
        cpus=need.cpus // need.tasks,
        gpu=piece.used.gpus,
        gpus=-(-need.gpus // need.tasks),
        tasks_per_gpu=max(1, need.tasks // need.gpus) if need.gpus else 1,
        memory=None if need.memory is None else need.memory // need.tasks,
        origin=replicas.origin,
    )


def _group(pool: Pool, rows: Sequence[Row], node: int, rank: int) -> Group:
    shapes = [*Placement(groups=(), rows=tuple(rows)).shapes()]
    cpus_per_task = {row.cpus for row in rows}
    nodes = max(row.node + row.nodes for row in rows) - node
    return Group(
        partition=pool.submit_as,
        node_type=pool.node_type,
        gpu_type=pool.gpu_type,
        constraint=pool.constraint,
        node=node,
        nodes=nodes,
        rank=rank,
        tasks=sum(row.tasks for row in rows),
        tasks_per_node=max(shape.tasks for shape in shapes),
        cpus_per_task=max(cpus_per_task),
        cpus=max(shape.cpus for shape in shapes),
        gpus=max(shape.gpus for shape in shapes),
        memory=max(shape.memory for shape in shapes)
        if pool.request_memory and all(row.memory is not None for row in rows)
        else None,
        gpus_per_task=rows[0].gpus if len({(row.gpus, row.tasks_per_gpu) for row in rows}) == 1 else None,
        even=len(cpus_per_task) == 1 and len({shape.tasks for shape in shapes}) == 1,
        site_partition=pool.partition,
        origin=pool.origin,
    )


# --- What a job has of each node, in words: CPUs, GPUs and memory, and why it requests no memory


def part_of_node(group: Group, site: Site, *, exclusive: bool) -> str:
    """Return what the job has of a node: ``4 of 16 CPUs, 1 of 4 GPUs, 16000 of 64000 MiB of memory``."""
    node = site.node_types.get(group.node_type or "", NodeType(gpus=None))
    gpus = [_of(group.gpus, None if node.gpus == "unknown" else node.gpus, "GPU")] if group.gpus else []
    return ", ".join(
        (_of(group.cpus, node.cpus, "CPU"), *gpus, _memory(group, site, node, exclusive=exclusive))
    )


def why_no_memory(site: Site, group: Group) -> str:
    """Return why jobs in this group's partition request no memory."""
    _, key = memory_in(site, group.site_partition)
    if key == "sge.memory":
        return (
            f"site {site.name} does not name the memory resource; write it as `sge.memory` in the site file"
        )
    if key == "directives.size":
        return f"site {site.name} requests nodes by their type (`{key}`), which have what memory they have"
    setting = f"{key}: nodes" if key == "lsf.request" else f"{key}: false"
    return f"site {site.name} says `{setting}`; a job gets the site's default"


def _of(number: int, size: int | None, what: str) -> str:
    total = f" of {size}" if size is not None else ""
    return f"{number}{total} {what}{'s' * ((number if size is None else size) != 1)}"


def _memory(group: Group, site: Site, node: NodeType, *, exclusive: bool) -> str:
    asks = memory_in(site, group.site_partition)[0]
    if group.memory is not None and not group.all_memory:
        size = shared_memory(node)
        return f"{group.memory}{'' if size is None else f' of {size}'} MiB of memory"
    if asks and (group.all_memory or (exclusive and site.scheduler == "slurm")):
        return "all memory"
    if not asks:
        return f"memory is not requested: {why_no_memory(site, group)}"
    why = "how much a node has is not known" if shared_memory(node) is None else "the experiment sets none"
    return f"memory is not requested: {why}, and a job gets the site's default"


# --- Node sizes: how many replicas each node takes, in rank order; a replica is never split


class ReplicaGroup(Model, frozen=True):
    """Equal replicas that follow one another in rank order; ``index``: of the first."""

    role: str
    index: int
    count: int
    need: Need
    pool: Pool
    origin: Origin


class NodeRun(NamedTuple):
    """Consecutive nodes with ``size`` replicas each."""

    nodes: int
    size: int


class Piece(Model, frozen=True):
    """``count`` equal replicas on each of ``nodes`` nodes; others have ``used`` a part of each node.

    ``first``: the number of the first one among ``replicas``.
    """

    replicas: ReplicaGroup
    first: int
    count: int
    node: int
    nodes: int
    used: Need


def node_sizes(
    pools: Sequence[Sequence[ReplicaGroup]], counts: NodeCounts, *, spread: bool
) -> list[list[NodeRun]]:
    """Return for the replicas of each pool how many each node takes, in node order.

    ``spread`` gives each replica its own node. Where the nodes of ``counts`` are too few, there are more.
    """
    totals = [sum(replicas.count for replicas in members) for members in pools]
    if spread:
        return [[NodeRun(total, 1)] for total in totals]
    if counts.per_node:
        return [_evenly(total, -(-total // counts.per_node)) for total in totals]
    if counts.nodes is None:
        return [*map(_fewest, pools)]
    least = [_nodes(_fewest(members)) for members in pools]
    shares = _shares(totals, least, counts.nodes)
    return [_on(members, nodes) for members, nodes in zip(pools, shares, strict=True)]


def pieces(members: Sequence[ReplicaGroup], runs: Sequence[NodeRun], node: int) -> Iterator[Piece]:
    """Distribute replicas over nodes in rank order; equally filled consecutive nodes are one piece."""
    remaining = iter(members)
    replicas, taken = next(remaining), 0
    for nodes, size in runs:
        end = node + nodes
        while node < end:
            used, left, alike = EMPTY, size, 1
            while left:
                if taken == replicas.count:
                    replicas, taken = next(remaining), 0
                if left == size:
                    alike = max(1, min(end - node, (replicas.count - taken) // size))
                count = min(left, replicas.count - taken)
                yield Piece(replicas, taken, count, node, alike, used)
                used = used.plus(replicas.need, count)
                taken, left = taken + count * alike, left - count
            node += alike


def _shares(totals: Sequence[int], least: Sequence[int], nodes: int) -> list[int]:
    """Distribute nodes over pools, so that the fullest node of all has as few replicas as possible."""

    def taken(most: int) -> list[int]:
        return [max(fewest, -(-total // most)) for total, fewest in zip(totals, least, strict=True)]

    low, high = 1, max(totals)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if sum(taken(middle)) <= nodes else (middle + 1, high)
    shares = taken(low)
    for number, total in enumerate(totals):
        shares[number] += max(0, min(total - shares[number], nodes - sum(shares)))
    return shares


def _on(members: Sequence[ReplicaGroup], nodes: int) -> list[NodeRun]:
    """Return the sizes of ``nodes`` nodes, as equal as their capacity allows."""
    runs = _evenly(sum(replicas.count for replicas in members), nodes)
    if all(_fits(piece) for piece in pieces(members, runs, 0)):
        return runs
    runs = _mixed_sizes(members, nodes)
    while missing := nodes - _nodes(runs):
        largest = max(range(len(runs)), key=lambda number: runs[number].size)
        runs[largest : largest + 1] = _halved(runs[largest], missing)
    return runs


def _fits(piece: Piece) -> bool:
    replicas = piece.replicas
    return not any(True for _ in replicas.pool.shortfalls(piece.used.plus(replicas.need, piece.count)))


def _halved(run: NodeRun, most: int) -> list[NodeRun]:
    """Split at most ``most`` of these nodes into two each."""
    split, half = min(run.nodes, most), run.size // 2
    if run.size % 2 == 0:
        found = [NodeRun(2 * split, half)]
    else:
        found = [part for _ in range(split) for part in (NodeRun(1, half + 1), NodeRun(1, half))]
    return [*found, *([NodeRun(run.nodes - split, run.size)] if run.nodes > split else [])]


def _evenly(total: int, nodes: int) -> list[NodeRun]:
    short, longer = divmod(total, nodes)
    return [run for run in (NodeRun(longer, short + 1), NodeRun(nodes - longer, short)) if run.nodes]


def _fewest(members: Sequence[ReplicaGroup]) -> list[NodeRun]:
    """Return the sizes of the fewest nodes that hold these replicas."""
    if len({replicas.need for replicas in members}) == 1:
        total = sum(replicas.count for replicas in members)
        return _evenly(total, -(-total // members[0].pool.capacity(members[0].need)))
    return _mixed_sizes(members)


def _mixed_sizes(members: Sequence[ReplicaGroup], nodes: int = 0) -> list[NodeRun]:
    """Fill nodes in order; then lower the filling as far as the number of nodes allows."""
    best = _fill(members, 1.0)
    most = max(nodes, _nodes(best))
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        sizes = _fill(members, middle)
        if _nodes(sizes) <= most:
            best, high = sizes, middle
        else:
            low = middle
    return best


def _nodes(runs: Sequence[NodeRun]) -> int:
    return sum(run.nodes for run in runs)


def _fill(members: Sequence[ReplicaGroup], fullness: float) -> list[NodeRun]:
    """Return how many replicas each node takes, at least one, when it is filled to this share."""
    closed: list[NodeRun] = []
    last, used = 0, EMPTY  # on the node that is being filled
    for replicas in members:
        room = min(replicas.count, replicas.pool.room(used, replicas.need, fullness))
        last, used = last + room, used.plus(replicas.need, room)
        if room < replicas.count:
            capacity = max(1, replicas.pool.room(EMPTY, replicas.need, fullness))
            full, rest = divmod(replicas.count - room, capacity)
            closed += [NodeRun(1, last)] if last else []
            closed += [NodeRun(full - (not rest), capacity)] if full > (not rest) else []
            last, used = rest or capacity, EMPTY.plus(replicas.need, rest or capacity)
    return [*closed, NodeRun(1, last)]

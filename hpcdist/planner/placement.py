"""Placement: which task sits on which node, with which CPUs and GPUs; pure arithmetic over what differs.

Replicas stay in rank order and a replica is never split. On one pool of nodes they take the fewest nodes
that hold them, evenly filled: five of which four fit on a node become 3 + 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from hpcdist.documents.fields import Model
from hpcdist.plan.origin import Origin
from hpcdist.plan.placement import Group, Placement, Row, Shape
from hpcdist.planner.pools import EMPTY, Need, Pool
from hpcdist.site.affinity import cpus_of_each_gpu
from hpcdist.site.model import NodeType, Site


class ReplicaGroup(Model, frozen=True):
    """Equal replicas that follow one another in rank order; ``index`` is that of the first."""

    role: str
    index: int
    count: int
    need: Need
    pool: Pool
    origin: Origin


class _Run(NamedTuple):
    """Consecutive nodes that take as many replicas each."""

    nodes: int
    size: int


class _Piece(Model, frozen=True):
    """``count`` equal replicas on each of ``nodes`` nodes; ``first`` counts from its beginning."""

    replicas: ReplicaGroup
    first: int
    count: int
    node: int
    nodes: int
    local_rank: int
    cpu: int
    gpu: int


def place(replica_groups: Sequence[ReplicaGroup], *, spread: bool = False) -> Placement:
    """Place replicas on nodes, numbered from 0; consecutive replica groups of one pool share a node group.

    ``spread`` puts each replica on a node of its own. Every replica must fit its pool's node.
    """
    groups: list[Group] = []
    rows: list[Row] = []
    for members in _by_pool(replica_groups):
        node = sum(group.nodes for group in groups)
        rank = sum(row.tasks for row in rows)
        own = _rows(_pieces(members, _node_sizes(members, spread=spread), node), rank)
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
        memory=None if row.memory is None else shape.memory,
        origin=row.origin,
    )
    if shape.node == 0:
        yield replace(node, role="master", index=0, tasks=1)
        node = replace(node, index=0, rank=1, node=1, tasks=shape.nodes - 1)
    if node.tasks:
        yield node


def _of_nodes(group: Group, rows: Sequence[Row]) -> Group:
    """Return the group of these tasks, of which each node has one."""
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


def _node_sizes(replica_groups: Sequence[ReplicaGroup], *, spread: bool) -> list[_Run]:
    """Return how many replicas each node takes, in node order."""
    total = sum(replicas.count for replicas in replica_groups)
    if spread:
        return [_Run(total, 1)]
    needs = {replicas.need for replicas in replica_groups}
    if len(needs) == 1:
        nodes = -(-total // replica_groups[0].pool.capacity(replica_groups[0].need))
        short, longer = divmod(total, nodes)
        return [run for run in (_Run(longer, short + 1), _Run(nodes - longer, short)) if run.nodes]
    return _mixed_sizes(replica_groups)


def _mixed_sizes(replica_groups: Sequence[ReplicaGroup]) -> list[_Run]:
    """Fill nodes in order; then lower the filling as far as the number of nodes allows."""
    best = _fill(replica_groups, 1.0)
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        sizes = _fill(replica_groups, middle)
        if _nodes(sizes) <= _nodes(best):
            best, high = sizes, middle
        else:
            low = middle
    return best


def _nodes(runs: Sequence[_Run]) -> int:
    return sum(run.nodes for run in runs)


def _fill(replica_groups: Sequence[ReplicaGroup], fullness: float) -> list[_Run]:
    """Return how many replicas each node takes when it is filled to this share of itself, at least by one."""
    closed: list[_Run] = []
    last, used = 0, EMPTY  # on the node that is being filled
    for replicas in replica_groups:
        room = min(replicas.count, replicas.pool.room(used, replicas.need, fullness))
        last, used = last + room, used.plus(replicas.need, room)
        if room < replicas.count:
            capacity = max(1, replicas.pool.room(EMPTY, replicas.need, fullness))
            full, rest = divmod(replicas.count - room, capacity)
            closed += [_Run(1, last)] if last else []
            closed += [_Run(full - (not rest), capacity)] if full > (not rest) else []
            last, used = rest or capacity, EMPTY.plus(replicas.need, rest or capacity)
    return [*closed, _Run(1, last)]


def _pieces(replica_groups: Sequence[ReplicaGroup], runs: Sequence[_Run], node: int) -> Iterator[_Piece]:
    """Distribute replicas over nodes in rank order; equally filled consecutive nodes are one piece."""
    remaining = iter(replica_groups)
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
                yield _Piece(replicas, taken, count, node, alike, used.tasks, used.cpus, used.gpus)
                used = used.plus(replicas.need, count)
                taken, left = taken + count * alike, left - count
            node += alike


def _rows(pieces: Iterator[_Piece], rank: int) -> list[Row]:
    """Fold pieces that look alike on consecutive nodes into one row."""
    rows: list[Row] = []
    open_piece: _Piece | None = None
    nodes = 0
    for piece in pieces:
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


def _continues(row: _Piece, nodes: int, piece: _Piece) -> bool:
    return (row.replicas, row.count, row.local_rank, row.cpu, row.gpu, row.node + nodes) == (
        piece.replicas,
        piece.count,
        piece.local_rank,
        piece.cpu,
        piece.gpu,
        piece.node,
    )


def _row(piece: _Piece, nodes: int, rank: int) -> Row:
    replicas, need = piece.replicas, piece.replicas.need
    return Row(
        role=replicas.role,
        index=replicas.index + piece.first,
        rank=rank,
        tasks=need.tasks * piece.count * nodes,
        tasks_per_replica=need.tasks,
        tasks_per_node=need.tasks * piece.count,
        node=piece.node,
        local_rank=piece.local_rank,
        cpu=piece.cpu,
        cpus=need.cpus // need.tasks,
        gpu=piece.gpu,
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
        if pool.request_memory and rows[0].memory is not None
        else None,
        gpus_per_task=rows[0].gpus if len({(row.gpus, row.tasks_per_gpu) for row in rows}) == 1 else None,
        even=len(cpus_per_task) == 1 and len({shape.tasks for shape in shapes}) == 1,
        site_partition=pool.partition,
        origin=pool.origin,
    )

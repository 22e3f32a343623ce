"""Placement: which task sits on which node, with which CPUs and GPUs; pure arithmetic over what differs.

Replicas stay in rank order and a replica is never split; ``node_sizes`` decides how many a node takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from hpcdist.experiment.replicas import ANY_NODES, NodeCounts
from hpcdist.plan.placement import Group, Placement, Row, Shape
from hpcdist.planner.node_sizes import Piece, ReplicaGroup, node_sizes, pieces
from hpcdist.planner.pools import Pool
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType, cpus_of_each_gpu


def place(
    replica_groups: Sequence[ReplicaGroup], counts: NodeCounts = ANY_NODES, *, spread: bool = False
) -> Placement:
    """Place replicas on nodes, numbered from 0; consecutive replica groups of one pool share a node group.

    ``spread`` puts each replica on a node of its own. Every replica must fit its pool's node.
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

"""Placement: which task sits on which node of the allocation, with which CPUs and GPUs.

Tasks are kept as rows of equal ones, so that a placement of 100,000 tasks is as small as the reasons for it;
``Placement.tasks`` expands them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from hpcdist.base.fields import Model
from hpcdist.plan.values import DEFAULT, Origin
from hpcdist.site.nodes import cpus_next_to


class Task(Model, frozen=True, kw_only=True):
    """One process that the launcher starts, and how many it starts itself if it is a torchrun.

    ``node`` is a number in the allocation, memory is MiB.
    """

    rank: int
    role: str
    index: int
    node: int
    local_rank: int
    cpus: tuple[int, ...]
    gpus: tuple[int, ...]
    memory: int | None
    processes: int = 1


class Row(Model, frozen=True, kw_only=True):
    """Equal tasks on consecutive nodes, in rank order.

    Each node from ``node`` on holds ``tasks_per_node`` of them (a node that holds fewer is another row).
    Counted on its node, the first has local rank ``local_rank``, its CPUs begin at ``cpu`` and its GPUs at
    ``gpu``; each has ``cpus`` CPUs and ``gpus`` GPUs to itself, or shares one GPU with its
    ``tasks_per_gpu - 1`` neighbours. Where ``gpu_cpus`` gives which CPUs are next to each GPU of the node,
    a task gets the CPUs next to its GPUs. ``index``: of the first replica. ``processes`` is how many
    processes each starts itself (torchrun does).
    """

    role: str
    index: int
    rank: int
    tasks: int
    tasks_per_replica: int
    tasks_per_node: int
    node: int
    local_rank: int
    cpu: int
    cpus: int
    gpu: int
    gpus: int
    tasks_per_gpu: int = 1
    processes: int = 1
    memory: int | None = None
    gpu_cpus: tuple[str, ...] = ()
    origin: Origin = DEFAULT

    @property
    def nodes(self) -> int:
        """The number of nodes of these tasks."""
        return self.tasks // self.tasks_per_node

    def task(self, offset: int) -> Task:
        """Return the task at this offset in the row."""
        along, slot = divmod(offset, self.tasks_per_node)
        gpu = self.gpu + slot // self.tasks_per_gpu * self.gpus
        gpus = tuple(range(gpu, gpu + self.gpus))
        return Task(
            rank=self.rank + offset,
            role=self.role,
            index=self.index + offset // self.tasks_per_replica,
            node=self.node + along,
            local_rank=self.local_rank + slot,
            cpus=self._cpus(slot, gpus),
            gpus=gpus,
            memory=self.memory,
            processes=self.processes,
        )

    def on_node(self, node: int) -> Iterator[Task]:
        """Yield the tasks on one of the nodes, in rank order."""
        first = (node - self.node) * self.tasks_per_node
        return map(self.task, range(first, first + self.tasks_per_node))

    def _cpus(self, slot: int, gpus: tuple[int, ...]) -> tuple[int, ...]:
        if not self.gpu_cpus:
            return tuple(range(self.cpu + slot * self.cpus, self.cpu + (slot + 1) * self.cpus))
        first = slot % self.tasks_per_gpu * self.cpus
        return cpus_next_to(self.gpu_cpus, gpus)[first : first + self.cpus]


class Group(Model, frozen=True, kw_only=True):
    """Nodes of one type in one partition: the whole job, or one component of a heterogeneous one.

    ``partition`` is the scheduler's name of it, None where no directive names one; ``site_partition`` is
    the site's. ``cpus``, ``gpus`` and ``memory`` (MiB) are requested on each node; ``all_memory``: all that
    it has, which is ``memory`` where that is known. ``tasks_per_node``: on the fullest node.
    ``even``: every node holds the same number of tasks, all with the same CPUs; ``gpus_per_task`` is None
    where tasks differ in their GPUs. ``reason``: the reason for this partition.
    """

    partition: str | None
    node_type: str | None
    gpu_type: str | None
    constraint: str | None
    node: int
    nodes: int
    rank: int
    tasks: int
    tasks_per_node: int
    cpus_per_task: int
    cpus: int
    gpus: int
    memory: int | None
    gpus_per_task: int | None
    even: bool
    all_memory: bool = False
    site_partition: str | None = None
    origin: Origin = DEFAULT
    reason: str = ""

    def has(self, row: Row) -> bool:
        """Return whether these tasks are on the group's nodes."""
        return self.node <= row.node < self.node + self.nodes


class Shape(NamedTuple):
    """Equal nodes, from ``node`` on; each has ``tasks_per_node`` tasks of each row."""

    node: int
    nodes: int
    rows: tuple[Row, ...]

    def on_node(self, node: int) -> Iterator[Task]:
        """Yield the tasks of one of these nodes, in rank order."""
        return (task for row in self.rows for task in row.on_node(node))

    @property
    def tasks(self) -> int:
        """The number of tasks on each node."""
        return sum(row.tasks_per_node for row in self.rows)

    @property
    def cpus(self) -> int:
        """The number of CPUs of these tasks."""
        return sum(row.tasks_per_node * row.cpus for row in self.rows)

    @property
    def gpus(self) -> int:
        """The number of GPUs of these tasks."""
        return sum(row.tasks_per_node * row.gpus // row.tasks_per_gpu for row in self.rows)

    @property
    def memory(self) -> int:
        """The MiB of these tasks; a task without a number counts as 0."""
        return sum(row.tasks_per_node * (row.memory or 0) for row in self.rows)


class Placement(Model, frozen=True, kw_only=True):
    """Which task sits on which node of the allocation, with which CPUs and GPUs."""

    groups: tuple[Group, ...]
    rows: tuple[Row, ...]

    @property
    def size(self) -> int:
        """The number of tasks."""
        return sum(row.tasks for row in self.rows)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(group.nodes for group in self.groups)

    @property
    def tasks(self) -> Iterator[Task]:
        """Every task, in rank order."""
        return (row.task(offset) for row in self.rows for offset in range(row.tasks))

    def on_node(self, node: int) -> Iterator[Task]:
        """Yield the tasks of one node, in rank order."""
        for row in self.rows:
            if row.node <= node < row.node + row.nodes:
                yield from row.on_node(node)

    def replicas(self, role: str) -> int:
        """Return the number of replicas of a role."""
        return sum(row.tasks // row.tasks_per_replica for row in self.rows if row.role == role)

    @property
    def is_even(self) -> bool:
        """Whether one group holds everything, with equal tasks and the same number on each node."""
        return len(self.groups) == 1 and self.groups[0].even

    def tasks_per_node(self) -> Iterator[tuple[int, int]]:
        """Yield runs of (number of nodes, tasks on each), in node order."""
        return ((nodes, tasks) for _, nodes, tasks in self.crowds())

    def crowds(self) -> Iterator[tuple[int, int, int]]:
        """Yield runs of nodes with equally many tasks: first node, number of nodes, tasks on each."""
        for tasks, run in groupby(self.shapes(), key=lambda shape: shape.tasks):
            own = [*run]
            if tasks:
                yield own[0].node, own[-1].node + own[-1].nodes - own[0].node, tasks

    def shapes(self) -> Iterator[Shape]:
        """Yield runs of equal nodes, in node order: nodes can only differ where a row begins or ends."""
        edges = sorted({edge for row in self.rows for edge in (row.node, row.node + row.nodes)})
        begin: dict[int, list[Row]] = {}
        for row in self.rows:
            begin.setdefault(row.node, []).append(row)
        here: list[Row] = []
        for node, end in pairwise(edges):
            here = [*(row for row in here if node < row.node + row.nodes), *begin.get(node, ())]
            yield Shape(node, end - node, tuple(here))


def of_role(placement: Placement, role: str) -> Placement:
    """Return the tasks of one role alone, with ranks from 0, on the nodes that they have."""
    rows, rank = [], 0
    for row in placement.rows:
        if row.role == role:
            rows.append(replace(row, rank=rank))
            rank += row.tasks
    tasks = [sum(row.tasks for row in rows if group.has(row)) for group in placement.groups]
    parts = zip(placement.groups, tasks, strict=True)
    groups = tuple(replace(group, tasks=count, even=False) for group, count in parts)
    return Placement(groups=groups, rows=tuple(rows))


def with_own_nodes(placement: Placement, count: int) -> Placement:
    """Return what a batch system is asked for where some programs have nodes without tasks.

    These nodes are like the node with the most tasks. A placement of several groups has none.
    """
    if not count or len(placement.groups) > 1:
        return placement
    shape, rank, rows = max(placement.shapes(), key=lambda shape: shape.tasks), placement.size, []
    for row in shape.rows:
        tasks = row.tasks_per_node * count
        rows.append(replace(row, role="beside", index=0, rank=rank, tasks=tasks, node=placement.nodes))
        rank += tasks
    [group] = placement.groups
    groups = (replace(group, nodes=group.nodes + count, tasks=rank),)
    return Placement(groups=groups, rows=(*placement.rows, *rows))

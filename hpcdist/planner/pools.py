"""A pool is nodes of one type in one partition; a need is what one replica takes of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from hpcdist.base.fields import Model
from hpcdist.experiment.replicas import Replica
from hpcdist.plan.values import Origin
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType, Partition, PerGpu, cpus_of_each_gpu

UNLIMITED = 1_000_000_000


class Need(Model, frozen=True):
    """What replicas take of one node: tasks, CPUs, GPUs, and memory in MiB (None: not counted)."""

    tasks: int
    cpus: int = 0
    gpus: int = 0
    memory: int | None = 0

    def plus(self, other: Need, times: int = 1) -> Need:
        """Return the sum of this and ``times`` the other."""
        return Need(
            self.tasks + other.tasks * times,
            self.cpus + other.cpus * times,
            self.gpus + other.gpus * times,
            (self.memory or 0) + (other.memory or 0) * times,
        )


EMPTY: Final = Need(tasks=0)


class Shortfall(NamedTuple):
    """What one replica requests beyond what a node has; ``size`` None: the node's is not known."""

    what: str
    size: int | None
    wanted: int

    def __str__(self) -> str:
        return f"{self.size} {self.what} a node, {self.wanted} requested"


class Pool(Model, frozen=True):
    """Nodes of one type in one partition; a size of None is not known and not counted.

    ``submit_as`` is the scheduler's name of the partition, None where no directive names one; ``nodes`` is
    how many a job may have, ``UNLIMITED`` where the site does not say; ``request_memory``: jobs request
    memory there; ``share``: jobs without a request ask for a share of the node's. ``packed``: replicas share
    nodes of unknown size, since their number on a node is known otherwise. ``shared_memory``: the memory that
    replicas without a request share. ``min_gpus`` and ``max_gpus``: the fewest and most GPUs of a job.
    ``max_per_gpu``: the most that a job may have for each GPU. ``request_cpus``: whether jobs request CPUs.
    """

    partition: str | None
    submit_as: str | None
    node_type: str | None
    gpu_type: str | None
    constraint: str | None
    cpus: int | None
    gpus: int | None
    memory: int | None
    nodes: int
    origin: Origin
    gpu_cpus: tuple[str, ...] = ()
    min_nodes: int = 1
    gpus_unknown: bool = False
    request_memory: bool | Literal["share"] = True
    packed: bool = False
    shared_memory: int | None = None
    min_gpus: int = 0
    max_gpus: int | None = None
    max_per_gpu: PerGpu | None = None
    request_cpus: bool = True

    def capacity(self, need: Need) -> int:
        """Return how many such replicas one empty node takes; 0 when it does not fit at all.

        Where nothing is known of the node there is one replica a node, unless there is one node only.
        """
        return self.room(EMPTY, need, 1.0)

    def room(self, used: Need, need: Need, fullness: float) -> int:
        """Return how many more such replicas a node takes until it is full to this share (0 to 1)."""
        rooms = [
            int((size * fullness - taken) / wanted + 1e-9)
            for size, taken, wanted in (
                (self.cpus, used.cpus, need.cpus),
                (self.gpus, used.gpus, need.gpus),
                (self.memory, used.memory or 0, need.memory or 0),
            )
            if size is not None and wanted
        ]
        if rooms:
            return max(0, min(rooms))
        return UNLIMITED if self.nodes == 1 or self.packed else int(not used.tasks)

    def shortfalls(self, need: Need) -> Iterator[Shortfall]:
        """Yield what one replica requests beyond what a node has."""
        if self.gpus_unknown and need.gpus:
            yield Shortfall("GPUs", None, need.gpus)
        for what, size, wanted in (
            ("GPUs", self.gpus, need.gpus),
            ("CPUs", self.cpus, need.cpus),
            ("MiB of memory", self.memory, need.memory or 0),
        ):
            if size is not None and wanted > size:
                yield Shortfall(what, size, wanted)


def whole_nodes_in(site: Site, partition: str | None) -> tuple[bool, str]:
    """Return whether jobs in a partition get whole nodes, and the key that says so."""
    own = getattr(site.partitions.get(partition or ""), "whole_nodes", None)
    return (site.whole_nodes, "whole_nodes") if own is None else (own, f"partitions.{partition}.whole_nodes")


def memory_in(site: Site, partition: str | None) -> tuple[bool | Literal["share"], str]:
    """Return whether jobs in a partition request memory, and the key of the site file that decides it."""
    if size := site.directives.size:
        return any("{memory}" in text for text in size), "directives.size"
    if key := schedulers.get(site.scheduler).memory_refused_by(site):
        return False, key
    return site.memory_in(partition)


def pools(site: Site) -> tuple[Pool, ...]:
    """Return every pool of the site, the default partition's first."""
    names = sorted(site.partitions, key=lambda name: name != site.default_partition)
    found = tuple(pool for name in names for pool in _of_partition(site, name))
    return found or (anywhere(site, "no partitions"),)


def anywhere(site: Site, reason: str) -> Pool:
    """Return the pool of nodes that the site file does not describe."""
    origin, (memory, _) = Origin("site", site.name, reason=reason), memory_in(site, None)
    return Pool(None, None, None, None, None, None, None, None, UNLIMITED, origin, request_memory=memory)


def unlisted(site: Site, name: str | None) -> Pool:
    """Return the nodes of a partition that the site's file lacks: of its only type, else of any kind."""
    if name is None or len(site.node_types) != 1:
        return anywhere(site, "not in its file")
    [pool] = _of_node_types(site, name, Partition(nodes=dict.fromkeys(site.node_types)))
    return pool


def _of_partition(site: Site, name: str) -> Iterator[Pool]:
    """Yield the pool of each node type, then, if there are several, the pool of any node."""
    kinds = tuple(_of_node_types(site, name, site.partitions[name]))
    yield from kinds
    if len(kinds) > 1:
        yield _any_node(site.partitions[name], kinds)


def _of_node_types(site: Site, name: str, partition: Partition) -> Iterator[Pool]:
    several = len(partition.nodes) > 1
    for type_name, count in partition.nodes.items():
        node = site.node_types[type_name]
        limits = [limit for limit in (count, partition.max_nodes) if limit is not None]
        constraint = [text for text in (partition.constraint, node.constraint if several else None) if text]
        yield Pool(
            partition=name,
            submit_as=(name if partition.submit_as is None else partition.submit_as) or None,
            node_type=type_name,
            gpu_type=node.gpu_type,
            constraint="&".join(constraint) or None,
            cpus=node.cpus,
            gpus=None if node.gpus == "unknown" else node.gpus,
            memory=_memory(node),
            nodes=min(limits, default=UNLIMITED),
            origin=Origin("site", site.name, f"partitions.{name}"),
            gpu_cpus=node.gpu_cpus,
            min_nodes=partition.min_nodes,
            gpus_unknown=node.gpus == "unknown",
            request_memory=memory_in(site, name)[0],
            shared_memory=shared_memory(node),
            min_gpus=partition.min_gpus,
            max_gpus=partition.max_gpus,
            max_per_gpu=node.max_per_gpu,
            request_cpus=partition.request_cpus,
        )


def _memory(node: NodeType) -> int | None:
    found = node.job_memory or node.memory
    return found.mib if found else None


def shared_memory(node: NodeType) -> int | None:
    """Return the memory that replicas share: where the site does not say, all but a sixteenth.

    Jobs do not get all of it: 240 of the 256 GB of Delta's nodes (https://github.com/ncsa/eidolon/pull/504).
    """
    if node.job_memory or not node.memory:
        return _memory(node)
    return node.memory.mib * 15 // 16


def _any_node(partition: Partition, kinds: Sequence[Pool]) -> Pool:
    """Return the pool of all nodes of a partition, each as large as the smallest; no type is requested."""
    nodes = sum(pool.nodes for pool in kinds)
    return replace(
        kinds[0],
        node_type=None,
        gpu_type=None,
        gpu_cpus=(),
        constraint=partition.constraint,
        cpus=_least(pool.cpus for pool in kinds),
        gpus=_least(pool.gpus for pool in kinds),
        memory=_least(pool.memory for pool in kinds),
        shared_memory=_least(pool.shared_memory for pool in kinds),
        nodes=min(UNLIMITED, nodes, partition.max_nodes or UNLIMITED),
        gpus_unknown=any(pool.gpus_unknown for pool in kinds),
        max_per_gpu=kinds[0].max_per_gpu if len({pool.max_per_gpu for pool in kinds}) == 1 else None,
    )


def _least(sizes: Iterable[int | None]) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def need_of(replica: Replica, site: Site, pool: Pool) -> Need:
    """Return what a replica takes of a node of this pool.

    CPUs that the file does not name: the site's default, else the GPUs' share of the node's CPUs (of the CPUs
    next to them, where these are known), else one a task.
    CPUs and memory are shared evenly by the tasks; what cannot be shared stays idle.
    """
    share = cpus_with(replica.gpus, pool)
    asked = replica.cpus or site.replica.cpus if pool.request_cpus or not share else None
    cpus = asked or share or replica.tasks
    memory = replica.memory or site.replica.memory
    each = max(1, cpus // replica.tasks)
    return Need(replica.tasks, each * replica.tasks, replica.gpus, memory.mib if memory else None)


def cpus_with(gpus: int, node: Pool | NodeType) -> int:
    """Return the CPUs of a node that come with so many of its GPUs, 0 where that is not known."""
    if not (gpus and node.cpus and isinstance(node.gpus, int) and gpus <= node.gpus):
        return 0
    limits = [node.cpus * gpus // node.gpus]
    if node.gpu_cpus:
        limits.append(gpus * min(map(len, cpus_of_each_gpu(node.gpu_cpus))))
    if node.max_per_gpu and node.max_per_gpu.cpus:
        limits.append(gpus * node.max_per_gpu.cpus)
    return min(limits)


def memory_with(gpus: int, node: NodeType) -> int:
    """Return the MiB of a node that come with so many of its GPUs, 0 where that is not known."""
    memory = shared_memory(node)
    if not (gpus and memory and isinstance(node.gpus, int) and gpus <= node.gpus):
        return 0
    most = node.max_per_gpu and node.max_per_gpu.memory
    return min(memory * gpus // node.gpus, most.mib * gpus if most else memory)


def with_memory(need: Need, pool: Pool) -> Need:
    """Give a need without memory its CPUs' share of the node's."""
    if need.memory is not None or not (pool.shared_memory and pool.cpus):
        return need
    memory = pool.shared_memory * need.cpus // pool.cpus
    most = pool.max_per_gpu
    if need.gpus and most and most.memory and most.over == "refused":
        memory = min(memory, most.memory.mib * need.gpus)
    return replace(need, memory=memory)

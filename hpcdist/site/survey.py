"""The survey: what a batch system reports of its machine, from which a site file is made. Pure.

Equal nodes become one ``NodeKind``. A ``Fact`` is a key of the site file with its value, or without one if
the batch system does not report it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from hpcdist.base.units import Walltime

_SAME_MEMORY: Final = 1.05
"""Factor: memory as nodes measure it differs slightly between equal nodes."""

_FEATURE_SETS: Final = 4
"""If otherwise equal nodes have more feature sets than this, the features name racks, not kinds of nodes."""


class Node(NamedTuple):
    """One node, as its batch system reports it; None is unknown. Memory is in MiB."""

    name: str
    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = 0
    gpu_type: str | None = None
    features: tuple[str, ...] = ()


class NodeKind(NamedTuple):
    """Equal nodes: ``memory`` is that of the smallest, ``constraint`` a feature that only they have."""

    name: str
    nodes: tuple[str, ...]
    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = 0
    gpu_type: str | None = None
    features: tuple[str, ...] = ()
    constraint: str | None = None


class PartitionInfo(NamedTuple):
    """A partition: how many nodes of each kind it has, its limits, and remarks for comments.

    ``whole_nodes``: its jobs get whole nodes, unlike those of other partitions.
    """

    name: str
    nodes: Mapping[str, int]
    max_nodes: int | None = None
    max_walltime: Walltime | None = None
    remarks: tuple[str, ...] = ()
    whole_nodes: bool = False


class Fact(NamedTuple):
    """A key of the site file; if ``value`` is None it is unknown, and ``example`` is a possible value.

    ``source``: the command that reports it, empty for what no command reports.
    """

    key: str
    value: object = None
    source: str = ""
    remarks: tuple[str, ...] = ()
    example: str = ""


class FailedCommand(NamedTuple):
    """A command that failed, and why."""

    command: str
    why: str


class SkippedPartition(NamedTuple):
    """A partition that this user's jobs cannot use, and why."""

    name: str
    why: str


class Survey(NamedTuple):
    """What the batch system reported; ``sources``: the commands that list nodes and partitions.

    ``memory``: the key of a node type that its memory is, ``job_memory`` where jobs can request all of it.
    """

    scheduler: str
    title: str
    kinds: tuple[NodeKind, ...] = ()
    partitions: tuple[PartitionInfo, ...] = ()
    facts: tuple[Fact, ...] = ()
    sources: tuple[str, str] = ("", "")
    failures: tuple[FailedCommand, ...] = ()
    skipped: tuple[SkippedPartition, ...] = ()
    warnings: tuple[str, ...] = ()
    memory: Literal["memory", "job_memory"] = "memory"


def kinds_of(nodes: Iterable[Node], *, constraints: bool = False) -> tuple[NodeKind, ...]:
    """Group equal nodes, those with GPUs first; each kind has a unique name.

    ``constraints``: a feature that all nodes of a kind have, and no other node, becomes its constraint.
    """
    groups = [group for equal in _by_hardware(nodes) for group in _by_features(equal)]
    groups.sort(key=lambda group: (not group[0].gpus, group[0].gpu_type or "", -len(group), group[0].name))
    features = [_common(group) for group in groups]
    owners = Counter(feature for group in groups for feature in {f for node in group for f in node.features})
    names = _names(groups)
    return tuple(
        NodeKind(
            name=name,
            nodes=tuple(node.name for node in group),
            cpus=group[0].cpus,
            memory=min((node.memory for node in group if node.memory), default=None),
            gpus=group[0].gpus,
            gpu_type=group[0].gpu_type,
            features=shared,
            constraint=_own(shared, owners, group[0].gpu_type) if constraints else None,
        )
        for name, group, shared in zip(names, groups, features, strict=True)
    )


def counts(kinds: Iterable[NodeKind], members: Iterable[str]) -> dict[str, int]:
    """Return how many of these nodes are of each kind, in the order of the kinds."""
    selected = set(members)
    found = {kind.name: len(selected & set(kind.nodes)) for kind in kinds}
    return {name: count for name, count in found.items() if count}


def _by_hardware(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    """Yield nodes with the same CPUs and GPUs, and about the same memory."""

    def shape(node: Node) -> tuple[int, int, str]:
        return node.cpus or 0, -1 if node.gpus is None else node.gpus, node.gpu_type or ""

    ordered = sorted(nodes, key=lambda node: (shape(node), node.memory or 0))
    for _, equal in itertools.groupby(ordered, key=shape):
        group: list[Node] = []
        for node in equal:
            if group and (node.memory or 0) > (group[0].memory or 0) * _SAME_MEMORY:
                yield group
                group = []
            group.append(node)
        yield group


def _by_features(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    groups: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        groups.setdefault(tuple(sorted(node.features)), []).append(node)
    found = [*groups.values()] if len(groups) <= _FEATURE_SETS else [[*nodes]]
    yield from (sorted(group, key=lambda node: node.name) for group in found)


def _common(group: Sequence[Node]) -> tuple[str, ...]:
    return tuple(f for f in group[0].features if all(f in node.features for node in group))


def _own(features: Iterable[str], owners: Mapping[str, int], gpu_type: str | None) -> str | None:
    own = [feature for feature in features if owners[feature] == 1]
    return gpu_type if gpu_type in own else next(iter(own), None)


def _names(groups: Sequence[Sequence[Node]]) -> list[str]:
    """Return names such as ``a100`` and ``cpu``, with size and number where they would not be unique."""
    short = [_slug(group[0].gpu_type or ("gpu" if group[0].gpus else "cpu")) for group in groups]
    shared = Counter(short)
    sized = [
        _with_size(name, group[0]) if shared[name] > 1 else name
        for name, group in zip(short, groups, strict=True)
    ]
    total, seen, names = Counter(sized), Counter[str](), list[str]()
    for name in sized:
        seen[name] += 1
        names.append(f"{name}-{seen[name]}" if total[name] > 1 else name)
    return names


def _with_size(name: str, node: Node) -> str:
    cpus = f"-{node.cpus}c" if node.cpus else ""
    return f"{name}{cpus}-{round(node.memory / 1024)}g" if node.memory else f"{name}{cpus}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-").lower() or "node"

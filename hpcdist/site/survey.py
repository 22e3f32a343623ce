"""The survey: what a batch system says of its machine, before any site file does. Pure.

Nodes that are alike become one ``NodeKind``. What a key of the site file is to be stands as a ``Fact``: with
its value, or without one where the batch system does not tell.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.units import Walltime

_ALIKE: Final = 1.05
"""Memory that a node measures itself differs a little from node to node."""

_FEATURE_SETS: Final = 4
"""Where otherwise equal nodes have more sets of features than this, those tell racks, not kinds of nodes."""


class Node(NamedTuple):
    """One node, as its batch system shows it; None is not known. Memory is in MiB."""

    name: str
    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = 0
    gpu_type: str | None = None
    features: tuple[str, ...] = ()


class NodeKind(NamedTuple):
    """Nodes that are alike: ``memory`` is that of the smallest, ``constraint`` what asks for them alone."""

    name: str
    nodes: tuple[str, ...]
    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = 0
    gpu_type: str | None = None
    features: tuple[str, ...] = ()
    constraint: str | None = None


class Part(NamedTuple):
    """A partition: how many nodes of each kind it has, and what else is worth a comment.

    ``whole_nodes``: its jobs get nodes of their own, where not those of all partitions do.
    """

    name: str
    nodes: Mapping[str, int]
    max_nodes: int | None = None
    max_walltime: Walltime | None = None
    remarks: tuple[str, ...] = ()
    whole_nodes: bool = False


class Fact(NamedTuple):
    """A key of the site file; ``value`` None is not known, and ``example`` shows then what could stand there.

    ``told``: the command that told it, empty for what no command tells.
    """

    key: str
    value: object = None
    told: str = ""
    remarks: tuple[str, ...] = ()
    example: str = ""


class Unseen(NamedTuple):
    """A command that gave no answer, and why."""

    command: str
    why: str


class LeftOut(NamedTuple):
    """A partition that is not for jobs of this user, and why."""

    name: str
    why: str


class Survey(NamedTuple):
    """What was seen; ``told`` are the commands that told of the nodes and of the partitions."""

    scheduler: str
    title: str
    kinds: tuple[NodeKind, ...] = ()
    parts: tuple[Part, ...] = ()
    facts: tuple[Fact, ...] = ()
    told: tuple[str, str] = ("", "")
    unseen: tuple[Unseen, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()


def kinds_of(nodes: Iterable[Node], *, constraints: bool = False) -> tuple[NodeKind, ...]:
    """Fold nodes that are alike, those with GPUs first; each kind has a name of its own.

    ``constraints``: a feature that all nodes of a kind have, and no other node, is what asks for them.
    """
    groups = [group for alike in _by_hardware(nodes) for group in _by_features(alike)]
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
    wanted = set(members)
    found = {kind.name: len(wanted & set(kind.nodes)) for kind in kinds}
    return {name: count for name, count in found.items() if count}


def _by_hardware(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    """Yield nodes with the same CPUs and GPUs, and about the same memory."""

    def shape(node: Node) -> tuple[int, int, str]:
        return node.cpus or 0, -1 if node.gpus is None else node.gpus, node.gpu_type or ""

    ordered = sorted(nodes, key=lambda node: (shape(node), node.memory or 0))
    for _, alike in itertools.groupby(ordered, key=shape):
        group: list[Node] = []
        for node in alike:
            if group and (node.memory or 0) > (group[0].memory or 0) * _ALIKE:
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
    """Return names such as ``a100`` and ``cpu``; where several would share one, size and number follow."""
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

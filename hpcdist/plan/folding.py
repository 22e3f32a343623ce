"""A placement as people read it: equal nodes and tasks are folded, ranges are written as ``0-3``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

from hpcdist.documents.fields import Model
from hpcdist.plan.placement import Group, Placement, Shape, Task
from hpcdist.site.nodes import format_cpu_list

T = TypeVar("T")

_MANY_TASKS: Final = 8
"""Of longer runs of equal tasks on a node, only the first and the last are shown."""


class Gap(Model, frozen=True):
    """A number of omitted items that equal their neighbours."""

    count: int
    what: str = "items"


def shown(placement: Placement, most: int = 3) -> Iterator[Task | Gap]:
    """Yield the tasks in rank order; of more than ``most`` nodes that look alike, the first and the last.

    No more of them are looked at than are shown.
    """
    for _, members in groupby(placement.shapes(), key=_looks):
        alike = [*members]
        first, last, count = alike[0], alike[-1], sum(shape.nodes for shape in alike)
        if count > most:
            yield from _of_node(first, first.node)
            yield Gap(count - 2, "nodes")
            yield from _of_node(last, last.node + last.nodes - 1)
        else:
            for shape in alike:
                for node in range(shape.node, shape.node + shape.nodes):
                    yield from _of_node(shape, node)


def _of_node(shape: Shape, node: int) -> Iterator[Task | Gap]:
    return folded(shape.on_node(node), _kind, _MANY_TASKS)


def _kind(task: Task) -> Hashable:
    return task.role, len(task.cpus), len(task.gpus), task.memory


def _looks(shape: Shape) -> Hashable:
    tasks = shape.on_node(shape.node)
    return tuple((task.role, task.local_rank, task.cpus, task.gpus, task.memory) for task in tasks)


def number_list(numbers: Sequence[int]) -> str:
    """Return numbers as a list: ``0-3``, ``7``, ``-`` for none."""
    return format_cpu_list(numbers) if numbers else "-"


def span(first: int, last: int) -> str:
    """Return a range: ``0-3``, or ``7`` for a single number."""
    return f"{first}-{last}" if last > first else str(first)


def folded(items: Iterable[T], kind: Callable[[T], Hashable], most: int) -> Iterator[T | Gap]:
    """Yield the items; of more than ``most`` consecutive items of a kind, the first, a gap, and the last."""
    for _, members in groupby(items, key=kind):
        row = [*members]
        if len(row) > most:
            yield row[0]
            yield Gap(len(row) - 2)
            yield row[-1]
        else:
            yield from row


def kind_of(group: Group) -> str:
    """Describe the nodes of a group: ``partition gpu, a100 nodes``; empty if nothing is known."""
    parts = (
        group.partition and f"partition {group.partition}",
        group.node_type and f"{group.node_type} nodes",
        group.constraint and f"constraint {group.constraint}",
    )
    return ", ".join(filter(None, parts))


def counted(word: str, first: int, count: int) -> str:
    """Return a range with its noun: ``nodes 0-3``, ``node 7``."""
    return f"{word}{'s' * (count > 1)} {span(first, first + count - 1)}"

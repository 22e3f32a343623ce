"""``hpcdist plan``: the map of tasks on nodes; equal nodes and equal tasks in a row are folded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

import click

from hpcdist.cli import show
from hpcdist.cli.options import experiment_options, json_option
from hpcdist.cli.session import Asked, session
from hpcdist.fields import Model
from hpcdist.plan import Group, Task
from hpcdist.renderer import summary

T = TypeVar("T")

_MANY_TASKS = 8
_MANY_NODES = 3
"""Longer rows of equals are shown by their first and their last."""


@click.command("plan")
@experiment_options
@json_option
def command(asked: Asked, json: bool) -> None:
    """Draw which task runs on which node, CPUs and GPUs.

    Nodes, CPUs and GPUs are counted from 0, as the plan gives them: the batch system chooses the real ones.
    """
    plan = session(asked).plan
    if json:
        show.as_json([*plan.placement.tasks])
        return
    click.echo(f"{plan.name} on site {plan.site}: {summary(plan)}")
    for group in plan.placement.groups:
        if title := _title(group):
            click.echo(title)
    show.table(("node", "rank", "role", "cpus", "gpus", "memory"), _rows(plan.placement.tasks))


def _title(group: Group) -> str:
    said = kind_of(group)
    return f"{counted('node', group.node, group.nodes)}: {said}" if said else ""


def kind_of(group: Group) -> str:
    """Write what nodes these are: ``partition gpu, a100 nodes``; empty where nothing is said of them."""
    parts = (
        group.partition and f"partition {group.partition}",
        group.node_type and f"{group.node_type} nodes",
        group.constraint and f"constraint {group.constraint}",
    )
    return ", ".join(filter(None, parts))


def counted(word: str, first: int, count: int) -> str:
    """Write a range with its word: ``nodes 0-3``, ``node 7``."""
    return f"{word}{'s' * (count > 1)} {span(first, first + count - 1)}"


def _rows(tasks: Iterable[Task]) -> Iterator[tuple[str, ...]]:
    nodes = [[*members] for _, members in groupby(tasks, key=lambda task: task.node)]
    for node in folded(nodes, _shape, _MANY_NODES):
        if isinstance(node, Gap):
            yield "...", "", f"{node.count} nodes like these"
            continue
        for task in folded(node, _kind, _MANY_TASKS):
            yield ("", "...", f"{task.count} like these") if isinstance(task, Gap) else _row(task)


def _row(task: Task) -> tuple[str, ...]:
    return (
        str(task.node),
        str(task.rank),
        task.role if task.role == "master" else f"{task.role} {task.index}",
        listed(task.cpus),
        listed(task.gpus),
        "-" if task.memory is None else f"{task.memory} MiB",
    )


def _kind(task: Task) -> Hashable:
    return task.role, len(task.cpus), len(task.gpus), task.memory


def _shape(node: Sequence[Task]) -> Hashable:
    return tuple((task.role, task.local_rank, task.cpus, task.gpus, task.memory) for task in node)


def listed(numbers: Sequence[int]) -> str:
    """Write consecutive numbers: ``0-3``, ``7``, ``-`` for none."""
    return span(numbers[0], numbers[-1]) if numbers else "-"


def span(first: int, last: int) -> str:
    """Write a range: ``0-3``, or ``7`` for one."""
    return f"{first}-{last}" if last > first else str(first)


class Gap(Model, frozen=True):
    """So many items that are like their neighbours."""

    count: int


def folded(items: Iterable[T], kind: Callable[[T], Hashable], most: int) -> Iterator[T | Gap]:
    """Yield the items; of more than ``most`` of one kind in a row, the first, a gap, and the last."""
    for _, members in groupby(items, key=kind):
        row = [*members]
        if len(row) > most:
            yield row[0]
            yield Gap(len(row) - 2)
            yield row[-1]
        else:
            yield from row

"""A placement as people read it: equal nodes and tasks are folded, ranges are written as ``0-3``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

from hpcdist.base.fields import Model
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group, Placement, Row, Shape, Task
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

    Nodes that are not shown are not computed.
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


# --- Devices: the numbers of a task's GPUs among those that it sees


def devices(job: JobSpec, task: Task) -> tuple[int, ...]:
    """Return the numbers of a task's GPUs among those that it sees: its ``HPCDIST_GPUS``."""
    if job.gpus.visibility != "node" or not task.gpus:
        return tuple(range(len(task.gpus)))
    place = task.local_rank % _gpus_on(job, task.node)
    return task.gpus if place in task.gpus else (place, *task.gpus[1:])


def moved(job: JobSpec) -> bool:
    """Whether some task sees the GPUs of its node in another order than the plan counts them in."""
    return job.gpus.visibility == "node" and not all(map(_is_in_place, job.placement.rows))


def misplaced(job: PreparedJob) -> tuple[Task, int] | None:
    """Return the first task whose local rank is not one of its devices, with its first device."""
    if job.gpus.visibility == "node" and not moved(job):
        return None
    tells_rank = any(variable.name == "LOCAL_RANK" for variable in job.environment.task_variables)
    for task in _of_each_shape(job):
        own = devices(job, task)
        device = 0 if tells_rank and job.gpus.visibility != "node" else task.local_rank
        if own and device not in own:
            return task, own[0]
    return None


def _of_each_shape(job: JobSpec) -> Iterator[Task]:
    """Yield the tasks of one node of each shape."""
    for shape in job.placement.shapes():
        yield from shape.on_node(shape.node)


def lacks_gpu_assignment(job: JobSpec) -> bool:
    """Whether other jobs may be on the same nodes, and the batch system assigns no GPUs to jobs."""
    return job.gpus.shared_nodes and not job.gpus.named and job.gpus.visibility != "launcher"


def hidden(job: JobSpec) -> bool:
    """Whether a job without GPUs would see other jobs' GPUs, as far as the site is known."""
    own = any(group.gpus or (group.constraint and not group.site_partition) for group in job.placement.groups)
    return job.gpus.shared_nodes and not (own or job.request.exclusive)


def _is_in_place(row: Row) -> bool:
    """Whether each of these tasks already has the device of its local rank, or has no device."""
    tasks = map(row.task, range(row.tasks_per_node))
    return not row.gpus or all(task.local_rank in task.gpus for task in tasks)


def _gpus_on(job: JobSpec, node: int) -> int:
    """Return how many GPUs the plan has on a node."""
    rows = (row for row in job.placement.rows if row.node <= node < row.node + row.nodes)
    return sum(row.tasks_per_node * row.gpus // row.tasks_per_gpu for row in rows)

"""Devices: the numbers of a task's GPUs among those that it sees.

Programs that are started by MPI take the device whose number is their rank on the node
(https://horovod.readthedocs.io/en/stable/pytorch.html: ``torch.cuda.set_device(hvd.local_rank())``). Where a
task sees all GPUs of the job on its node, they are in an order in which that one is its own, as far as there
are so many; each task makes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Row, Task


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
    """Return the first task whose local rank is no device of its own, with the number of its device."""
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
    """Whether other jobs may be on the same nodes, and the batch system sets for none which GPUs it has."""
    return job.gpus.shared_nodes and not job.gpus.named and job.gpus.visibility != "launcher"


def hidden(job: JobSpec) -> bool:
    """Whether a job without GPUs would see those of other jobs."""
    has_gpus = any(group.gpus for group in job.placement.groups)
    return job.gpus.shared_nodes and not has_gpus


def _is_in_place(row: Row) -> bool:
    """Whether each of these tasks has the device of its local rank without further ado, or none."""
    tasks = map(row.task, range(row.tasks_per_node))
    return not row.gpus or all(task.local_rank in task.gpus for task in tasks)


def _gpus_on(job: JobSpec, node: int) -> int:
    """Return how many GPUs the plan has on a node."""
    rows = (row for row in job.placement.rows if row.node <= node < row.node + row.nodes)
    return sum(row.tasks_per_node * row.gpus // row.tasks_per_gpu for row in rows)

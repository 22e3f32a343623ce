"""How many tasks sit on the nodes, for launchers that put the same number on each."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import PlanError, Problem
from hpcdist.layers.launchers import launchers
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import Placement


def tasks_on_each_node(job: JobSpec, why: str) -> int:
    """Return the number of tasks that every node holds; ``why`` is what the launcher does.

    Raises:
        PlanError: with the plan's numbers, where nodes hold different ones.
    """
    runs = list(job.placement.tasks_per_node())
    if len({tasks for _, tasks in runs}) > 1:
        planned = ", ".join(f"{tasks} on {nodes} node{'s' * (nodes != 1)}" for nodes, tasks in runs)
        able = " or ".join(_for_unequal_nodes(job))
        hint = f"ask for as many replicas as fill all nodes alike{_totals(job.placement)}"
        hint += f", or write another `batch.launcher`: {able}" if able else ""
        message = f"{why}, and the plan has {planned}"
        raise PlanError(Problem(message, ("environment", "replicas"), hint))
    return runs[0][1]


def _totals(placement: Placement) -> str:
    """Name the nearest numbers of processes that fill nodes alike, where all replicas are equal."""
    kinds = {(row.tasks_per_replica, row.cpus, row.gpus, row.memory) for row in placement.rows}
    size, nodes = placement.rows[0].tasks_per_replica, placement.nodes
    count = placement.size // size
    most = -(-count // nodes)
    # What a node can hold is not in the plan: with less it had been more nodes, with more fewer.
    holds = range(most, (count - 1) // (nodes - 1) + 1)
    balanced = most * size == max(tasks for _, tasks in placement.tasks_per_node())
    if len(kinds) > 1 or len(placement.groups) > 1 or not holds or not balanced:
        return ""
    fewer = next(n for n in range(count - 1, 0, -1) if all(n % -(-n // each) == 0 for each in holds))
    return f", such as {fewer * size} or {most * nodes * size} processes"


def _for_unequal_nodes(job: JobSpec) -> Iterator[str]:
    """Name the launchers under the plan's scheduler that take such a plan."""
    for launcher in launchers.objects():
        usable = launcher.rank_variables and job.identity.scheduler in launcher.schedulers
        if (
            usable
            and launcher.unequal_nodes
            and job.identity.framework in (launcher.frameworks or {job.identity.framework})
        ):
            yield launcher.name

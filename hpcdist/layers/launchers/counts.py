"""The number of tasks a node, for launchers that start the same number on each."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import PlanError, Problem
from hpcdist.layers.launchers import launchers
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import Placement


def tasks_on_each_node(job: JobSpec, why: str) -> int:
    """Return the number of tasks that every node holds; ``why``: the launcher's limit, for the message.

    Raises:
        PlanError: where nodes hold different numbers of tasks; it has the plan's numbers.
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
    """Return the nearest numbers of processes with as many on each node; empty where replicas differ."""
    kinds = {(row.tasks_per_replica, row.cpus, row.gpus, row.memory) for row in placement.rows}
    size, nodes = placement.rows[0].tasks_per_replica, placement.nodes
    count = placement.size // size
    most = -(-count // nodes)
    # How many fit on a node is not in the plan, but the number of nodes gives its bounds.
    holds = range(most, (count - 1) // (nodes - 1) + 1)
    balanced = most * size == max(tasks for _, tasks in placement.tasks_per_node())
    if len(kinds) > 1 or len(placement.groups) > 1 or not holds or not balanced:
        return ""
    fewer = next(n for n in range(count - 1, 0, -1) if all(n % -(-n // each) == 0 for each in holds))
    return f", such as {fewer * size} or {most * nodes * size} processes"


def _for_unequal_nodes(job: JobSpec) -> Iterator[str]:
    """Yield the launchers for the plan's scheduler that start different numbers of tasks a node."""
    for launcher in launchers.objects():
        usable = launcher.rank_variables and job.identity.scheduler in launcher.schedulers
        if (
            usable
            and launcher.unequal_nodes
            and job.identity.framework in (launcher.frameworks or {job.identity.framework})
        ):
            yield launcher.name

"""Which CPUs the tasks of a node are bound to, for launchers that take a list for each."""

from __future__ import annotations

from hpcdist.plan.model import JobSpec
from hpcdist.plan.origin import Origin
from hpcdist.plan.placement import Group


def cpus_of_tasks(job: JobSpec, group: Group) -> list[tuple[int, ...]]:
    """Return the CPUs of each task on a node of the group; empty where the site file gives none."""
    tasks = list(job.placement.on_node(group.node))
    return [task.cpus for task in tasks] if _is_known(job, group) else []


def _is_known(job: JobSpec, group: Group) -> bool:
    return any(row.gpu_cpus for row in job.placement.rows if row.node == group.node)


def origin_of(job: JobSpec, group: Group) -> Origin:
    """Return the origin of these CPUs: the key of the site file."""
    return Origin("site", job.identity.site, f"node_types.{group.node_type}.gpu_cpus")

"""What a site gives for each GPU: replicas that request more are refused, or it is discouraged."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import Problem, warning
from hpcdist.experiment.replica import Replica
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.placement import Group
from hpcdist.planner.pools import cpus_with, memory_with
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType, PerGpu


def over_share(replica: Replica, most: PerGpu, name: str) -> Iterator[Problem]:
    """Yield what a replica requests beyond what its GPUs bring, an error where the site refuses it."""
    asked = (
        ("CPUs", most.cpus, replica.cpus, ""),
        ("memory", most.memory and most.memory.mib, replica.memory and replica.memory.mib, " MiB"),
    )
    for what, size, wanted, unit in asked:
        if not (size and wanted and replica.gpus and wanted > size * replica.gpus):
            continue
        needed, path = -(-wanted // size), (*replica.path, "cpu" if what == "CPUs" else "memory")
        message = (
            f"{name} has {size}{unit} {what} a GPU, and {replica.name} requests {wanted}{unit} with "
            f"{replica.gpus} GPU{'s' * (replica.gpus != 1)}"
        )
        if most.over == "refused":
            yield Problem(message, path, f"request {size * replica.gpus}{unit}, or {needed} GPUs")
        else:
            yield warning(f"{message}: the site advises against it, or charges it as {needed} GPUs", path)


def advice(replica: Replica, group: Group, site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning where a replica requests more or less than its GPUs bring, or no CPUs are requested."""
    node = site.node_types.get(group.node_type or "")
    name = f"partition {group.site_partition} ({group.node_type} nodes)"
    if node and node.max_per_gpu and node.max_per_gpu.over == "discouraged":
        yield from over_share(replica, node.max_per_gpu, name)
    if node:
        yield from _under_share(replica, group, site, node, job)
    partition = site.partitions.get(group.site_partition or "")
    if partition and not partition.request_cpus and replica.gpus and replica.cpus:
        each = group.cpus // group.gpus if group.gpus else 0
        if replica.cpus != each * replica.gpus:
            message = f"CPUs are not requested in {name}, where each GPU brings {each}"
            yield warning(message, (*replica.path, "cpu"))


def _under_share(
    replica: Replica, group: Group, site: Site, node: NodeType, job: PreparedJob
) -> Iterator[Problem]:
    """Yield a warning where the file has less CPUs or memory than what comes with a replica's GPUs.

    A job that has whole nodes has all of their CPUs.
    """
    partition = site.partitions.get(group.site_partition or "")
    no_cpus = job.request.exclusive or (partition and not partition.request_cpus)
    cpus, memory = None if no_cpus else replica.cpus, replica.memory if group.memory else None
    for key, unit, size, share in (
        ("cpu", "CPUs", cpus, cpus_with(replica.gpus, node)),
        ("memory", "MiB of memory", memory and memory.mib, memory_with(replica.gpus, node)),
    ):
        if size and size < share:
            whose = f"{replica.gpus} of the {node.gpus} GPUs of a node"
            message = f"{replica.name} has {size} of the {share} {unit} that come with {whose}"
            hint = f"remove it, or write `{key}: {{requests: {share}}}`"
            yield Problem(message, (*replica.path, key), hint, "warning")

"""What a site gives for each GPU: replicas that request more are refused, or it is discouraged."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import Problem, warning
from hpcdist.experiment.replica import Replica
from hpcdist.plan.placement import Group
from hpcdist.site.model import Site
from hpcdist.site.nodes import PerGpu


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


def advice(replica: Replica, group: Group, site: Site) -> Iterator[Problem]:
    """Yield a warning where a replica requests more than its GPUs bring, or its CPUs are not requested."""
    node = site.node_types.get(group.node_type or "")
    name = f"partition {group.site_partition} ({group.node_type} nodes)"
    if node and node.max_per_gpu and node.max_per_gpu.over == "discouraged":
        yield from over_share(replica, node.max_per_gpu, name)
    partition = site.partitions.get(group.site_partition or "")
    if partition and not partition.request_cpus and replica.gpus and replica.cpus:
        each = group.cpus // group.gpus if group.gpus else 0
        if replica.cpus != each * replica.gpus:
            message = f"CPUs are not requested in {name}, where each GPU brings {each}"
            yield warning(message, (*replica.path, "cpu"))

"""What a job has of each node, in words: CPUs, GPUs and memory, and why it asks for no memory."""

from __future__ import annotations

from hpcdist.plan.placement import Group
from hpcdist.planner.pools import memory_in, shared_memory
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType


def part_of_node(group: Group, site: Site, *, exclusive: bool) -> str:
    """Return what the job has of a node: ``4 of 16 CPUs, 1 of 4 GPUs, 16000 of 64000 MiB of memory``."""
    node = site.node_types.get(group.node_type or "", NodeType(gpus=None))
    gpus = [_of(group.gpus, None if node.gpus == "unknown" else node.gpus, "GPU")] if group.gpus else []
    return ", ".join(
        (_of(group.cpus, node.cpus, "CPU"), *gpus, _memory(group, site, node, exclusive=exclusive))
    )


def why_no_memory(site: Site, group: Group) -> str:
    """Return why jobs in this group's partition request no memory, as its site says it."""
    _, key = memory_in(site, group.site_partition)
    if key == "sge.memory":
        return (
            f"site {site.name} does not name the memory resource; write it as `sge.memory` in the site file"
        )
    if key == "directives.size":
        return f"site {site.name} requests nodes by their type (`{key}`), which have what memory they have"
    setting = f"{key}: nodes" if key == "lsf.request" else f"{key}: false"
    return f"site {site.name} says `{setting}`; a job gets the site's default"


def _of(number: int, size: int | None, what: str) -> str:
    total = f" of {size}" if size is not None else ""
    return f"{number}{total} {what}{'s' * ((number if size is None else size) != 1)}"


def _memory(group: Group, site: Site, node: NodeType, *, exclusive: bool) -> str:
    asks = memory_in(site, group.site_partition)[0]
    if group.memory is not None and not group.all_memory:
        size = shared_memory(node)
        return f"{group.memory}{'' if size is None else f' of {size}'} MiB of memory"
    if asks and (group.all_memory or (exclusive and site.scheduler == "slurm")):
        return "all memory"
    if not asks:
        return f"memory is not requested: {why_no_memory(site, group)}"
    why = "how much a node has is not known" if shared_memory(node) is None else "the experiment sets none"
    return f"memory is not requested: {why}, and a job gets the site's default"

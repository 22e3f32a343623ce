"""What is wrong with a site that no type can say: names that must exist, patterns that must compile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hpcdist import fabric
from hpcdist.affinity import shares
from hpcdist.dialects import container
from hpcdist.errors import Path, Problem, did_you_mean
from hpcdist.site import NodeType, Site


def problems_of(site: Site) -> Iterator[Problem]:
    """Yield what no type can say: names that must exist, patterns that must compile."""
    for name, node in site.node_types.items():
        yield from _node_problems(name, node, site.scheduler)
    yield from _partition_problems(site)
    for key, meanings in site.node_selectors.items():
        for value, chosen in meanings.items():
            if chosen.partition and site.partitions:
                path = ("node_selectors", key, value, "partition")
                yield from _missing("partition", chosen.partition, site.partitions, path)
    yield from fabric.problems_of(site.fabric)
    if site.container:
        yield from container.problems_of(site.container)
    for key, pattern in site.detect.env.items():
        yield from _pattern_problems(pattern, ("detect", "env", key))
    for index, pattern in enumerate(site.detect.fqdn):
        yield from _pattern_problems(pattern, ("detect", "fqdn", index))
    if site.account.pattern:
        yield from _pattern_problems(site.account.pattern, ("account", "pattern"))


def _node_problems(name: str, node: NodeType, scheduler: str) -> Iterator[Problem]:
    path = ("node_types", name, "cpus_per_gpu")
    if node.cpus_per_gpu is not None and scheduler != "pbs":
        yield Problem("only what is asked of PBS follows it", path, "remove it")
    elif node.cpus_per_gpu is not None and node.cpus_per_gpu < 1:
        yield Problem("a GPU has one CPU at least", path, "correct it, or remove it")
    yield from _gpu_cpus_problems(node, ("node_types", name, "gpu_cpus"))


def _gpu_cpus_problems(node: NodeType, path: Path) -> Iterator[Problem]:
    try:
        empty = any(not cpus for cpus in shares(node.gpu_cpus))
    except ValueError as error:
        yield Problem(str(error), path, "write it as 48-63,112-127")
        return
    if node.gpu_cpus and len(node.gpu_cpus) != (node.gpus or 0):
        yield Problem(f"{len(node.gpu_cpus)} lists for {node.gpus} GPUs", path, "write one for each GPU")
    elif empty:
        yield Problem("GPUs that have one list cannot divide it", path, "list more CPUs")


def _partition_problems(site: Site) -> Iterator[Problem]:
    for name, partition in site.partitions.items():
        path = ("partitions", name)
        if not partition.nodes:
            yield Problem("a partition has nodes", (*path, "nodes"), "write `{NODE_TYPE: NUMBER}`")
        for node_type in partition.nodes:
            yield from _missing("node type", node_type, site.node_types, (*path, "nodes", node_type))
        sizes = [limit.nodes for limit in partition.limits]
        if sizes != sorted(set(sizes)):
            yield Problem("the numbers of nodes do not ascend", (*path, "limits"))
    if site.default_partition:
        yield from _missing("partition", site.default_partition, site.partitions, ("default_partition",))


def _missing(what: str, name: str, known: Iterable[str], path: Path) -> Iterator[Problem]:
    if name not in known:
        yield Problem(f"there is no {what} {name!r}", path, did_you_mean(name, known))


def _pattern_problems(pattern: str, path: Path) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield Problem(f"{pattern!r} is not a regular expression: {error}", path)

"""Problems of a site that its types do not exclude: unknown names, invalid patterns, wrong numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

from hpcdist.base import text_checks
from hpcdist.base.errors import Path, Problem, unknown
from hpcdist.site import charges, fabric, published, settings
from hpcdist.site.charges import AccountRule
from hpcdist.site.fabric import ConditionalText, text_of
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType, Partition, cpus_of_each_gpu, parse_cpu_list

_SUFFIX: Final = re.compile(r"[A-Za-z0-9._-]*")

_THREADS: Final = 4
"""The most hardware threads per core of any supported machine (POWER9)."""
_RESERVED: Final = 64
"""More CPUs than any supported machine reserves for its system, which ``cpus`` omits (Frontier, LUMI: 8)."""


def problems_of(site: Site) -> Iterator[Problem]:
    """Yield all problems of a site that its types do not exclude."""
    for name, node in site.node_types.items():
        yield from _node_problems(name, node)
    yield from _partition_problems(site)
    yield from _number_problems(site)
    yield from _word_problems(site)
    for key, meanings in site.node_selectors.items():
        for value, chosen in meanings.items():
            if chosen.partition and site.partitions:
                path = ("node_selectors", key, value, "partition")
                yield from _missing("partition", chosen.partition, site.partitions, path)
    yield from _condition_problems(site)
    yield from fabric.problems_of(site.fabric)
    yield from published.problems_of(site.published, site.unpublished)
    yield from published.measured_problems(site.measured)
    for base, runtime in site.containers():
        yield from settings.problems_of(runtime, base)
    yield from _charge_problems(site)
    for key, pattern in site.detect.env.items():
        yield from _pattern_problems(pattern, ("detect", "env", key))
    for index, pattern in enumerate(site.detect.fqdn):
        yield from _pattern_problems(pattern, ("detect", "fqdn", index))
    if site.account.pattern:
        yield from _pattern_problems(site.account.pattern, ("account", "pattern"))


def _charge_problems(site: Site) -> Iterator[Problem]:
    if site.balance:
        yield from charges.balance_problems(site.balance, ("balance",))
    for where, charge in _charges(site):
        yield from charges.problems_of(charge, where)
    for name, partition in site.partitions.items():
        yield from charges.rate_problems(partition.charge_factor, ("partitions", name, "charge_factor"))


def _charges(site: Site) -> Iterator[tuple[Path, charges.Charge]]:
    if site.charge:
        yield ("charge",), site.charge
    for name, node in site.node_types.items():
        if node.charge:
            yield ("node_types", name, "charge"), node.charge
    for name, partition in site.partitions.items():
        if partition.charge:
            yield ("partitions", name, "charge"), partition.charge


def _condition_problems(site: Site) -> Iterator[Problem]:
    for path, condition in site.conditions():
        for index, name in enumerate(condition.node_types):
            yield from _missing("node type", name, site.node_types, (*path, "node_types", index))
        for index, name in enumerate(condition.partitions):
            yield from _missing("partition", name, site.partitions, (*path, "partitions", index))
        if isinstance(condition, ConditionalText) and not condition.words:
            yield Problem("it has no condition", path, f"write {condition.value!r} alone, or add one")
        elif isinstance(condition, AccountRule):
            yield from _pattern_problems(condition.pattern, (*path, "pattern"))


def _node_problems(name: str, node: NodeType) -> Iterator[Problem]:
    yield from _at_least(1, node.cpus, ("node_types", name, "cpus"))
    yield from _at_least(0, node.gpus, ("node_types", name, "gpus"))
    if node.memory and node.job_memory and node.job_memory.mib > node.memory.mib:
        path: Path = ("node_types", name, "job_memory")
        yield Problem("jobs cannot request more memory than the node has", path, "correct one of them")
    if node.cpus_per_gpu is not None and node.cpus_per_gpu < 1:
        path = ("node_types", name, "cpus_per_gpu")
        yield Problem("a GPU needs at least one CPU", path, "correct it, or remove it")
    yield from _gpu_cpus_problems(node, ("node_types", name, "gpu_cpus"))


def _gpu_cpus_problems(node: NodeType, path: Path) -> Iterator[Problem]:
    try:
        empty = any(not cpus for cpus in cpus_of_each_gpu(node.gpu_cpus))
    except ValueError as error:
        yield Problem(str(error), path, "write it as 48-63,112-127")
        return
    if node.gpu_cpus and len(node.gpu_cpus) != (node.gpus or 0):
        yield Problem(f"{len(node.gpu_cpus)} lists for {node.gpus} GPUs", path, "write one for each GPU")
    elif empty:
        yield Problem("the list has fewer CPUs than GPUs that share it", path, "list more CPUs")
    yield from _cpu_problems(node, path)


def _cpu_problems(node: NodeType, path: Path) -> Iterator[Problem]:
    """Yield CPUs that no such node can have, and CPUs that are in different lists."""
    lists = {text: {cpu for run in parse_cpu_list(text) for cpu in run} for text in node.gpu_cpus}
    for text, cpus in lists.items():
        # Numbers exceed `cpus` if it counts cores, or omits CPUs that are reserved for the system.
        if node.cpus is not None and max(cpus) >= _THREADS * node.cpus + _RESERVED:
            message = f"there is no CPU {max(cpus)} on a node of {node.cpus} CPUs"
            yield Problem(message, (*path, node.gpu_cpus.index(text)), "number them as `lscpu` does, from 0")
    for one, other in combinations(lists, 2):
        if lists[one] & lists[other]:
            message = f"{one} and {other} share CPU {min(lists[one] & lists[other])}"
            hint = "GPUs must have the same list, or lists without common CPUs"
            yield Problem(message, (*path, node.gpu_cpus.index(other)), hint)


def _partition_problems(site: Site) -> Iterator[Problem]:
    for name, partition in site.partitions.items():
        path = ("partitions", name)
        if not partition.nodes:
            yield Problem("a partition must have nodes", (*path, "nodes"), "write `{NODE_TYPE: NUMBER}`")
        for node_type in partition.nodes:
            yield from _missing("node type", node_type, site.node_types, (*path, "nodes", node_type))
        yield from _size_problems(partition, path)
        sizes = [limit.nodes for limit in partition.limits]
        if sizes != sorted(set(sizes)):
            yield Problem("the numbers of nodes must ascend", (*path, "limits"))
    for key in ("default_partition", "default_cpu_partition"):
        if name := getattr(site, key):
            yield from _missing("partition", name, site.partitions, (key,))


def _size_problems(partition: Partition, path: Path) -> Iterator[Problem]:
    for node_type, count in partition.nodes.items():
        yield from _at_least(0, count, (*path, "nodes", node_type))
    yield from _at_least(0, partition.min_nodes, (*path, "min_nodes"))
    yield from _at_least(1, partition.max_nodes, (*path, "max_nodes"))
    if partition.max_nodes is not None and 1 <= partition.max_nodes < partition.min_nodes:
        message = f"{partition.min_nodes} nodes are more than `max_nodes`, {partition.max_nodes}"
        yield Problem(message, (*path, "min_nodes"), "correct one of them")
    yield from _at_least(0, partition.min_gpus, (*path, "min_gpus"))
    yield from _at_least(max(1, partition.min_gpus), partition.max_gpus, (*path, "max_gpus"))
    for index, limit in enumerate(partition.limits):
        yield from _at_least(1, limit.nodes, (*path, "limits", index, "nodes"))


def _number_problems(site: Site) -> Iterator[Problem]:
    yield from _at_least(1, site.replica.cpus, ("replica", "cpus"))
    for name, options in site.launchers.items():
        yield from _at_least(1, options.threads_per_core, ("launchers", name, "threads_per_core"))


def _at_least(least: int, number: int | str | None, path: Path) -> Iterator[Problem]:
    if isinstance(number, int) and number < least:
        yield Problem(f"{number} is less than {least}", path, "correct it, or remove it")


def _word_problems(site: Site) -> Iterator[Problem]:
    """Yield texts that are invalid in a script."""
    if not _SUFFIX.fullmatch(site.head_node.suffix):
        message = f"{site.head_node.suffix!r} is not a valid suffix of a host name"
        yield Problem(message, ("head_node", "suffix"), "use letters, digits, dots and dashes")
    yield from text_checks.module_problems([*map(text_of, site.modules)], ("modules",))


def _missing(what: str, name: str, known: Iterable[str], path: Path) -> Iterator[Problem]:
    if name not in known:
        yield unknown(what, name, known, path)


def _pattern_problems(pattern: str, path: Path) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield Problem(f"{pattern!r} is not a regular expression: {error}", path)

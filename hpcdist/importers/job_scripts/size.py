"""The size of a job by its directives: nodes, the tasks of each, and what a node has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.base.units import Memory
from hpcdist.importers.job import Sourced
from hpcdist.importers.job_scripts.directives import Header


class JobSize(NamedTuple):
    """Nodes with the same tasks, CPUs, GPUs and memory on each; ``source`` is a line that says so."""

    nodes: int
    tasks: int
    """On each node."""
    source: tuple[str | int, ...]
    cpus: int | None = None
    gpus: int = 0
    gpu_type: str = ""
    memory: int | str | None = None
    """MiB, or ``all``."""
    sources: Mapping[str, tuple[str | int, ...]] = {}
    """The lines that set ``cpu``, ``memory`` and ``gpu``."""

    @property
    def resources(self) -> dict[str, dict[str, object]]:
        """What a replica requests that has a node's share."""
        amounts = {"gpu": self.gpus or None, "cpu": self.cpus, "memory": self.memory}
        return {name: {"requests": amount} for name, amount in amounts.items() if amount is not None}


_MOST: Final = 64
"""The most CPUs that tasks without a number of nodes get on one node."""


def size_of(header: Header) -> JobSize:
    """Return the size of the job; without a number of nodes it is one node, if its tasks fit there."""
    number = header.number
    nodes, tasks, each = (number(name) or None for name in ("nodes", "tasks", "tasks_per_node"))
    if nodes is None and each and tasks:
        nodes = -(-tasks // each)
    elif nodes is None and (of_node := number("gpus_per_node")) and (gpus := number("gpus")):
        nodes = -(-gpus // of_node)
    elif nodes is None:
        _check_one_node(header, tasks or 1)
    elif tasks and tasks < nodes and header.system.name == "slurm":
        why = f"{tasks} task{'s' * (tasks > 1)} cannot run on {nodes} nodes: Slurm gives the job {tasks}"
        header.read.warn(*header.size["nodes"].source, why=why)
        nodes = tasks
    if (header.system.name, tasks) == ("flux", None) or header.system.name == "lsf":
        _take_whole_nodes(header)
    nodes, total = nodes or 1, number("gpus")
    gpus = number("gpus_per_node") or -(-(total or 0) // nodes)
    if tasks and (each is None or tasks < nodes * each):
        each = -(-tasks // nodes)
        if tasks % nodes:
            why = f"{tasks} tasks on {nodes} nodes are not the same number on each"
            header.read.refuse(*header.size["tasks"].source, why=why, hint=f"write {each * nodes}")
    each = each or (number("tasks_per_gpu") or 0) * gpus or 1
    if of_task := number("gpus_per_task"):
        gpus = of_task * each
        header.job.set("batch.gpu_visibility", "task", *header.size["gpus_per_task"].source)
    cpus = _cpus(header, each, gpus)
    source = next(iter(header.size.values()), Sourced("", ())).source
    memory = _memory(header, nodes, each, cpus, gpus)
    kinds = {"cpu": "cpu", "gpu": "gpu", "mem": "memory"}
    sources = {kinds[name[:3]]: one.source for name, one in header.size.items() if name[:3] in kinds}
    return JobSize(nodes, each, source, cpus, gpus, _gpu_type(header), memory, sources)


def _take_whole_nodes(header: Header) -> None:
    """Request whole nodes where only their number is given: flux-batch(1), --nslots; bsub(1), -nnodes."""
    if "nodes" in header.size:
        header.job.settings["batch.exclusive"] = Sourced(value=True, source=header.size["nodes"].source)


def _check_one_node(header: Header, tasks: int) -> None:
    """Warn that one node is requested where the batch system might take more; refuse too many tasks."""
    source = next((header.size[name].source for name in ("tasks", "gpus") if name in header.size), ())
    cpus = tasks * (header.number("cpus_per_task") or 1)
    if tasks > 1 and cpus > _MOST:
        why = f"the script leaves it to {header.system.title} on how many nodes {tasks} tasks run"
        header.read.refuse(*source, why=why, hint="write the number of nodes into the script")
    elif tasks > 1 or (header.number("gpus") or 0) > 1:
        header.read.warn(*source, why="the script sets no number of nodes: one is requested")


def _gpu_type(header: Header) -> str:
    """Return the type of ``gpu:a100:4`` or ``a100:4``."""
    names = ("gpus_per_node", "gpus", "gpus_per_task")
    texts = [str(header.size[name].value) for name in names if name in header.size]
    match = re.search(r"([A-Za-z][\w.-]*):\d+$", texts[0]) if texts else None
    return match[1] if match and match[1] != "gpu" else ""


def _cpus(header: Header, each: int, gpus: int) -> int | None:
    if (of_node := header.number("cpus")) is not None:
        return of_node
    if (of_task := header.number("cpus_per_task")) is not None:
        return of_task * each
    if (of_gpu := header.number("cpus_per_gpu")) is not None and gpus:
        return of_gpu * gpus
    return each if each > 1 and not gpus else None


def _memory(header: Header, nodes: int, each: int, cpus: int | None, gpus: int) -> int | str | None:
    """Return the MiB of a node, ``all`` for `--mem=0`."""
    units = {
        "memory": 1,
        "memory_of_job": 1,
        "memory_per_cpu": cpus or each,
        "memory_per_gpu": gpus,
        "memory_per_task": each,
    }
    for name, count in units.items():
        found = header.size.get(name)
        if found is None or not count:
            continue
        if header.system.name == "lsf" and str(found.value).isdecimal():
            header.read.warn(
                *found.source, why="memory without a unit is not kept: the cluster says which it is"
            )
            continue
        text = re.sub(r"(?i)(\d)([kmgt])i?[bw]?c?$", r"\1\2", str(found.value)).upper()
        if text.rstrip("KMGT") == "0":
            return "all"
        try:
            amount = Memory.parse(int(text) if text.isdecimal() else text)
        except ValueError as error:
            header.read.refuse(*found.source, why=str(error))
            continue
        return -(-amount.mib // nodes) if name == "memory_of_job" else amount.mib * count
    return None

"""The size of a job by its directives: nodes, the tasks of each, and what a node has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

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
    scattered: bool = False
    """Whether the script leaves the number of nodes to the batch system; a node is then one task's share."""

    @property
    def resources(self) -> dict[str, dict[str, object]]:
        """What a replica requests that has a node's share."""
        amounts = {"gpu": self.gpus or None, "cpu": self.cpus, "memory": self.memory}
        return {name: {"requests": amount} for name, amount in amounts.items() if amount is not None}


def size_of(header: Header) -> JobSize:
    """Return the size of the job.

    A number of tasks without one of nodes is spread by the batch system; with GPUs of a node, it is one node.
    """
    number = header.number
    nodes, tasks, each = number("nodes"), number("tasks"), number("tasks_per_node")
    gpus, per_gpu, of_task = number("gpus_per_node"), number("tasks_per_gpu"), number("gpus_per_task")
    total = number("gpus")
    scattered = bool(tasks and not nodes and not each and not gpus and not total and tasks > 1)
    if nodes is None:
        nodes = -(-tasks // each) if tasks and each else tasks if scattered else 1
        nodes = nodes or 1
        guessed = tasks and tasks > 1 and not each and not scattered
        if guessed or (total and total > 1):
            source = header.size["tasks" if guessed else "gpus"].source
            header.read.warn(*source, why="the script sets no number of nodes: one is requested")
    if total and gpus is None:
        gpus = -(-total // nodes)
    if tasks and (each is None or tasks < nodes * each):
        each = -(-tasks // nodes)
        if tasks % nodes:
            why, hint = (
                f"{tasks} tasks on {nodes} nodes are not the same number on each",
                f"write {each * nodes}",
            )
            header.read.refuse(*header.size["tasks"].source, why=why, hint=hint)
    each = each or (per_gpu * gpus if per_gpu and gpus else 1)
    if of_task:
        gpus = of_task * each
        header.job.set("batch.gpu_visibility", "task", *header.size["gpus_per_task"].source)
    gpus = gpus or 0
    kinds = [
        str(header.size[name].value)
        for name in ("gpus_per_node", "gpus", "gpus_per_task")
        if name in header.size
    ]
    typed = next((match[1] for kind in kinds if (match := re.search(r"([A-Za-z][\w.-]*):\d+$", kind))), "")
    cpus = _cpus(header, each, gpus)
    source = next(iter(header.size.values()), Sourced("", ())).source
    memory = _memory(header, nodes, each, cpus, gpus)
    kinds_of = {"cpu": "cpu", "gpu": "gpu", "gres": "gpu", "mem": "memory"}
    sources = {kinds_of[name[:3]]: one.source for name, one in header.size.items() if name[:3] in kinds_of}
    return JobSize(
        nodes, each, source, cpus, gpus, "" if typed == "gpu" else typed, memory, sources, scattered
    )


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

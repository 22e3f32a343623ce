"""Machines of a cloud: what replicas request in place of one."""

from __future__ import annotations

from typing import NamedTuple

from hpcdist.errors import Path
from hpcdist.importers.reading import Reading


class Machine(NamedTuple):
    """One machine; ``cpus`` and ``gib`` only of types without GPUs; all 0 if its size is unknown."""

    gpus: int = 0
    gpu_type: str = ""
    cpus: int = 0
    gib: float = 0

    @property
    def resources(self) -> dict[str, dict[str, int]]:
        """The request of a replica of this size, with memory in MiB."""
        amounts = {"gpu": self.gpus, "cpu": self.cpus, "memory": int(self.gib * 1024)}
        return {name: {"requests": number} for name, number in amounts.items() if number}


def put_machine(read: Reading, kind: Machine, source: Path, *sections: str) -> None:
    """Request the resources of a machine for each section of replicas, and prefer its type of GPU."""
    for section in sections if any(kind) else ():
        read.put(f"{section}.resources", kind.resources, *source)
        if kind.gpus:
            read.put(f"{section}.node_selector", {"gpu_type": kind.gpu_type}, *source)
    name = read.text(*source)
    why = f"of a {name} machine the GPUs are requested; CPUs and memory are the site's share of them"
    if kind.gpus and why not in {remark.message for remark in read.remarks}:
        read.warn(*source, why=why, hint="for others write `resources` into the imported file")

"""The replicas of an experiment: the master, the workers, the parameter servers, in rank order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

from hpcdist.amounts import Resources
from hpcdist.errors import Path
from hpcdist.experiment import Experiment, ReplicaEntry, Replicas
from hpcdist.fields import Model
from hpcdist.units import Memory

Role = Literal["master", "worker", "ps"]

PER_GPU_FRAMEWORKS: Final = frozenset({"horovod", "mpi"})
"""Frameworks under which a replica with g GPUs is g tasks; under the others it is one."""


class Replica(Model, frozen=True):
    """One thing that the user counts: always on one node.

    ``cpus`` and ``memory`` are those of the whole replica, None where the file does not say;
    ``path`` is the section of the file that says what it needs, empty where none does.
    """

    role: Role
    index: int
    tasks: int
    gpus: int
    cpus: int | None
    memory: Memory | None
    node_selector: tuple[tuple[str, str], ...]
    path: Path

    @property
    def name(self) -> str:
        """``master``, ``worker 3``, ``ps 0``."""
        return self.role if self.role == "master" else f"{self.role} {self.index}"


def replicas(experiment: Experiment) -> Iterator[Replica]:
    """Yield the replicas in rank order: the master, the workers, the parameter servers.

    Under ``backend: mpi`` there is no master: the workers are all there is (Polyaxon 0.6, MPIJob).
    Workers do not inherit the master's resources.
    """
    environment = experiment.environment
    section = environment.replicas or Replicas()
    if not (experiment.backend == "mpi" and section.n_workers):
        entry = ReplicaEntry(resources=environment.resources, node_selector=environment.node_selector)
        yield _replica(experiment, "master", 0, entry, ("environment",))
    yield from _section(experiment, "worker", section.n_workers, section.worker, section.default_worker)
    yield from _section(experiment, "ps", section.n_ps, section.ps, section.default_ps)


def _section(
    experiment: Experiment,
    role: Role,
    count: int,
    own: tuple[ReplicaEntry, ...],
    default: ReplicaEntry | None,
) -> Iterator[Replica]:
    places = {entry.index: place for place, entry in enumerate(own)}
    base: Path = ("environment", "replicas")
    for index in range(count):
        if index in places:
            yield _replica(experiment, role, index, own[places[index]], (*base, role, places[index]))
        elif default is not None:
            yield _replica(experiment, role, index, default, (*base, f"default_{role}"))
        else:
            yield _replica(experiment, role, index, ReplicaEntry(), ())


def _replica(experiment: Experiment, role: Role, index: int, entry: ReplicaEntry, path: Path) -> Replica:
    resources = entry.resources or Resources()
    gpus = int(resources.gpu.value or 0)
    per_gpu = max(gpus, 1) if experiment.framework in PER_GPU_FRAMEWORKS else 1
    cpus, memory = resources.cpu.value, resources.memory.value
    return Replica(
        role=role,
        index=index,
        tasks=experiment.environment.processes_per_replica or per_gpu,
        gpus=gpus,
        cpus=math.ceil(cpus) if cpus else None,
        memory=memory if memory and memory.mib else None,  # Slurm would read 0 as all that there is
        node_selector=tuple((key, str(value)) for key, value in entry.node_selector.items()),
        path=(*path, "resources") if entry.resources else path,
    )

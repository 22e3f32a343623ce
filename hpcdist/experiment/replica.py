"""The replicas of an experiment, in rank order: the master, workers, parameter servers, an evaluator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple, get_args

from hpcdist.documents.fields import Model
from hpcdist.errors import Path
from hpcdist.experiment.amounts import Resources
from hpcdist.experiment.model import Experiment, ReplicaEntry, Replicas
from hpcdist.units import Memory

Role = Literal["master", "worker", "ps", "evaluator"]
ROLES: frozenset[str] = frozenset(get_args(Role))


class Replica(Model, frozen=True):
    """One replica, always on one node.

    ``cpus`` and ``memory`` are those of the whole replica, None if the file does not set them;
    ``all_memory``: it shares all memory of its node with the others there. ``path`` is
    the section of the file with its resources, ``selector_path`` that with its node selector; empty if there
    is none.
    """

    role: Role
    index: int
    tasks: int
    gpus: int
    cpus: int | None
    memory: Memory | None
    node_selector: tuple[tuple[str, str], ...]
    path: Path
    selector_path: Path = ()
    all_memory: bool = False

    @property
    def name(self) -> str:
        """``master``, ``worker 3``, ``ps 0``."""
        return self.role if self.role == "master" else f"{self.role} {self.index}"


class Block(Model, frozen=True):
    """Equal replicas that follow one another in rank order; ``first`` stands for all."""

    first: Replica
    count: int


def blocks(experiment: Experiment, *, per_gpu: bool) -> Iterator[Block]:
    """Yield the replicas in rank order: the master, the workers, the parameter servers, the evaluator.

    Each as few blocks as there can be, so that a million equal replicas take no longer than ten. ``per_gpu``:
    a replica with g GPUs has g tasks, unless the file sets another number; else it has one. With ``backend:
    mpi`` there is no master, only workers (Polyaxon 0.6, MPIJob). Workers do not inherit the master's
    resources.
    """
    for (role, needs, selector), equal in groupby(_spans(experiment), key=_kind):
        spans = [*equal]
        gpus = int(needs.entry.resources.gpu.value or 0) if needs.entry.resources else 0
        tasks = experiment.environment.processes_per_replica or (max(gpus, 1) if per_gpu else 1)
        replica = _replica(role, spans[0].begin, tasks, needs, selector)
        yield Block(replica, sum(span.size for span in spans))


class _Section(NamedTuple):
    """A section of the file, and its path."""

    entry: ReplicaEntry = ReplicaEntry()
    path: Path = ()


class _Span(NamedTuple):
    """Replicas that follow one another, and the sections that say their resources and their node selector."""

    role: Role
    begin: int
    size: int
    needs: _Section
    selector: _Section


def _kind(span: _Span) -> tuple[Role, _Section, _Section]:
    return span.role, span.needs, span.selector


def _spans(experiment: Experiment) -> Iterator[_Span]:
    """Yield the replicas in rank order."""
    environment = experiment.environment
    section = environment.replicas or Replicas()
    base: Path = ("environment", "replicas")
    if not (experiment.backend == "mpi" and section.n_workers):
        entry = ReplicaEntry(resources=environment.resources, node_selector=environment.node_selector)
        master = _Section(entry, ("environment",))
        yield _Span("master", 0, 1, master, master)
    yield from _numbered("worker", section.n_workers, section.worker, section.default_worker)
    yield from _numbered("ps", section.n_ps, section.ps, section.default_ps)
    if section.evaluator is not None:
        evaluator = _Section(section.evaluator, (*base, "evaluator"))
        yield _Span("evaluator", 0, 1, evaluator, evaluator)


def _numbered(
    role: Role, count: int, own: tuple[ReplicaEntry, ...], default: ReplicaEntry | None
) -> Iterator[_Span]:
    """Yield replicas with the keys of their own entry, else those of the default one.

    As in Polyaxon: ``worker_resources``, ``worker_node_selectors`` of polyaxon-schemas 0.4 to 0.6.
    """
    places = {entry.index: place for place, entry in enumerate(own) if entry.index is not None}
    base: Path = ("environment", "replicas")
    fallback = _Section(default, (*base, f"default_{role}")) if default else _Section()
    begin = 0
    for index in sorted(index for index in places if 0 <= index < count):
        if begin < index:
            yield _Span(role, begin, index - begin, fallback, fallback)
        single = _Section(own[places[index]], (*base, role, places[index]))
        needs = single if single.entry.resources or not fallback.entry.resources else fallback
        yield _Span(role, index, 1, needs, single if single.entry.node_selector else fallback)
        begin = index + 1
    if begin < count:
        yield _Span(role, begin, count - begin, fallback, fallback)


def _replica(role: Role, index: int, tasks: int, needs: _Section, selector: _Section) -> Replica:
    resources = needs.entry.resources or Resources()
    cpus, memory = resources.cpu.value, resources.memory.value
    return Replica(
        role=role,
        index=index,
        tasks=tasks,
        gpus=int(resources.gpu.value or 0),
        cpus=math.ceil(cpus) if cpus else None,
        memory=memory if isinstance(memory, Memory) and memory.mib else None,  # for Slurm 0 means all of it
        all_memory=memory == "all",
        node_selector=tuple((key, str(value)) for key, value in selector.entry.node_selector.items()),
        path=(*needs.path, "resources") if needs.entry.resources else needs.path,
        selector_path=(*selector.path, "node_selector") if selector.entry.node_selector else (),
    )

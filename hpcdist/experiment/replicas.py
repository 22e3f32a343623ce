"""The replicas of an experiment: in rank order, their number on each node, and their own commands."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from typing import Final, Literal, NamedTuple, get_args

from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import Model
from hpcdist.base.units import Memory
from hpcdist.base.words import join_commands
from hpcdist.experiment.launch_line import launch_in
from hpcdist.experiment.model import Experiment, ReplicaEntry, Replicas, Resources
from hpcdist.experiment.program import MOST_COUNT, choosing
from hpcdist.experiment.shell_words import with_start

# --- Replicas in rank order

Role = Literal["master", "worker", "ps", "evaluator"]
ROLES: frozenset[str] = frozenset(get_args(Role))


class Replica(Model, frozen=True):
    """One replica, always on one node."""

    role: Role
    index: int
    tasks: int
    gpus: int
    cpus: int | None
    """The CPUs of the whole replica; None if the file does not set them."""
    memory: Memory | None
    """The memory of the whole replica; None if the file does not set it."""
    node_selector: tuple[tuple[str, str], ...]
    path: Path
    """The section of the file with its resources, if the file has one."""
    selector_path: Path = ()
    """The section of the file with its node selector, if the file has one."""
    all_memory: bool = False
    """It shares all memory of its node with the other replicas there."""

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


def replica_count(experiment: Experiment) -> int:
    """Return the number of all replicas."""
    return sum(block.count for block in blocks(experiment, per_gpu=False))


def workers_on(experiment: Experiment, nodes: int, there: int) -> int:
    """Return how many workers it has on ``nodes`` nodes with as many replicas on each as now on ``there``.

    Negative if the replicas that are not workers are more than that. With ``backend: mpi`` a master becomes
    a worker.
    """
    total, workers = replica_count(experiment), (experiment.environment.replicas or Replicas()).n_workers
    others = total - workers - (experiment.backend == "mpi" and not workers)
    return total // there * nodes - others


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
    """Yield replicas with the keys of their own entry, else of the default one.

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


# --- The nodes, and the replicas on each, that the file asks for

NODES: Final[Path] = ("batch", "nodes")
PER_NODE: Final[Path] = ("environment", "replicas", "per_node")


class NodeCounts(NamedTuple):
    """The number of nodes, and of replicas on each; None where the file leaves it to the site's nodes."""

    nodes: int | None = None
    per_node: int | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> NodeCounts:
        """Return what the file says."""
        return cls(experiment.batch.nodes, (experiment.environment.replicas or Replicas()).per_node)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The keys that the file has."""
        return tuple(path for path, count in zip((NODES, PER_NODE), self, strict=True) if count is not None)


ANY_NODES: Final = NodeCounts()
"""What a file says that leaves it to the site's nodes."""


def node_count_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield the contradictions between the number of nodes and the replicas, which need no site."""
    counts, section = NodeCounts.of(experiment), experiment.environment.replicas or Replicas()
    if not counts.paths or not all(0 <= number <= MOST_COUNT for number in (section.n_workers, section.n_ps)):
        return
    wrong = [*_range_problems(counts)]
    total = replica_count(experiment)
    yield from (
        wrong or _contradiction(experiment, counts, total) or _spread_problems(experiment, counts, total)
    )


def _range_problems(counts: NodeCounts) -> Iterator[Problem]:
    for path, count in zip((NODES, PER_NODE), counts, strict=True):
        if count is not None and not 1 <= count <= MOST_COUNT:
            yield Problem(f"{count} is out of range", path, f"write a number from 1 to {MOST_COUNT}")


def _contradiction(experiment: Experiment, counts: NodeCounts, total: int) -> list[Problem]:
    """Return a problem where so many replicas cannot be on these nodes."""
    nodes, per_node = counts
    there_are = f"there {'are' if total > 1 else 'is'} {total}: {_listed(experiment)}"
    others = total - (experiment.environment.replicas or Replicas()).n_workers

    def written(*more: str, totals: tuple[int, ...]) -> str:
        framework = "a `framework` and " * (experiment.framework is None)
        workers = [f"{framework}`n_workers: {count - others}`" for count in totals if count >= max(1, others)]
        return f"write {' or '.join((*workers, *more))}" if workers or more else ""

    if nodes and per_node and nodes * per_node != total:
        message = f"`nodes: {nodes}` times `per_node: {per_node}` is {nodes * per_node}, and {there_are}"
        own = [f"`nodes: {total // per_node}`"] if total % per_node == 0 else []
        return [Problem(message, NODES, written(*own, totals=(nodes * per_node,)))]
    if per_node and not nodes and total % per_node:
        below = total - total % per_node
        uneven = [f"`batch: {{nodes: {below // per_node + 1}}}` in its place"] if below else []
        message = f"replicas cannot be {per_node} on each node: {there_are}"
        return [Problem(message, PER_NODE, written(*uneven, totals=(below, below + per_node)))]
    if nodes and nodes > total:
        message = f"{nodes} nodes need a replica each, and {there_are}"
        return [Problem(message, NODES, written(totals=(nodes,)))]
    return []


def _listed(experiment: Experiment) -> str:
    """Return the replicas in words: ``the master and 3 workers``."""
    names = {"worker": "worker", "ps": "parameter server"}
    found: dict[str, int] = {}
    for block in blocks(experiment, per_gpu=False):
        found[block.first.role] = found.get(block.first.role, 0) + block.count
    words = [
        f"{count} {names[role]}{'s' * (count > 1)}" if role in names else f"the {role}"
        for role, count in found.items()
    ]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _spread_problems(experiment: Experiment, counts: NodeCounts, total: int) -> Iterator[Problem]:
    """Yield a problem where the command starts the processes of a node, and so each replica needs its own."""
    launch = launch_in(experiment)
    alone = counts.nodes in (None, total) and counts.per_node in (None, 1)
    if launch and launch.runs == "per_node" and not alone:
        message = f"{launch.program} starts the processes of a node itself: each replica has one of its own"
        yield Problem(message, counts.paths[0], "remove it")


# --- Commands of single replicas

_FILE: Final = re.compile(r"(?<![^\s'\"=])[^\s'\"=]+\.(?:py|sh)\b|-m\s+[\w.]+")
"""A script or module that a command runs."""
_BASE: Path = ("environment", "replicas")


def own_commands(experiment: Experiment) -> Mapping[Path, tuple[str, str]]:
    """Return each command of replicas, with a pattern of their role and index, by its path.

    Commands of single replicas come before the default one of their role.
    """
    found = (item for item in _entries(experiment.environment.replicas or Replicas()) if item[2].cmd)
    return {(*path, "cmd"): (pattern, _text(entry)) for path, pattern, entry in found}


def foreign_commands(experiment: Experiment, roles: Collection[str]) -> Iterator[Path]:
    """Yield the path of each command of these roles that runs none of the main command's files."""
    main = {*_FILE.findall(experiment.run.command)}
    for path, pattern, entry in _entries(experiment.environment.replicas or Replicas()):
        if (
            entry.cmd
            and pattern.strip('"*').split()[0] in roles
            and main.isdisjoint(_FILE.findall(_text(entry)))
        ):
            yield (*path, "cmd")


def task_command(experiment: Experiment, *, launches: bool) -> str:
    """Return the text that bash runs in each task.

    ``launches``: each task is a launch of several processes, which is to be in the environment that the first
    lines of the command set up.
    """
    own = own_commands(experiment)
    if not own:
        return with_start(experiment.run.command) if launches else experiment.run.command
    branches = dict(own.values())
    return choosing('"$HPCDIST_ROLE $HPCDIST_INDEX"', branches, experiment.run.command)


def _entries(replicas: Replicas) -> Iterator[tuple[Path, str, ReplicaEntry]]:
    for role in ("worker", "ps"):
        for place, entry in enumerate(getattr(replicas, role)):
            yield (*_BASE, role, place), f'"{role} {entry.index}"', entry
    for role in ("worker", "ps"):
        if entry := getattr(replicas, f"default_{role}"):
            yield (*_BASE, f"default_{role}"), f'"{role} "*', entry
    if replicas.evaluator:
        yield (*_BASE, "evaluator"), '"evaluator "*', replicas.evaluator


def _text(entry: ReplicaEntry) -> str:
    return entry.cmd if isinstance(entry.cmd, str) else join_commands(entry.cmd or ())

"""The fields of a run's ``plan.json`` that its state and its logs need.

It is read without the plan models, which would slow down `status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import field

from hpcdist.runs.elements import Elements, numbers

if TYPE_CHECKING:
    from hpcdist.experiment.batch import ArraySpec


class NodeGroup(msgspec.Struct, frozen=True):
    """Equal nodes of a plan, from number ``node`` on, and what is requested on each; memory is MiB."""

    node: int = 0
    nodes: int = 1
    gpus: int = 0
    memory: int | None = None
    all_memory: bool = False


class Ranks(msgspec.Struct, frozen=True):
    """Equal tasks of a plan, from ``rank`` on, so many on each node from number ``node`` on.

    ``cpus``, ``memory`` (MiB) and ``processes`` are per task.
    """

    rank: int = 0
    tasks: int = 1
    tasks_per_node: int = 1
    node: int = 0
    tasks_per_replica: int = 1
    cpus: int = 1
    memory: int | None = None
    processes: int = 1


class StoredPlan(NamedTuple):
    """A plan as stored; fields that are missing or of another type are None or empty.

    ``walltime`` is in seconds. ``gpus``: how many the job, or each element of an array, requests;
    ``reserved_gpus``: with the other GPUs of whole nodes, None if unknown. ``tasks``: how many tasks
    hpcdist starts, None if the command starts them itself; ``processes``: how many ranks, several for each
    torchrun. ``labelled``: whether lines of the output begin with a rank, None if unknown. ``order``: the
    metric by which the best trial of a search comes first. ``trials``: how many the job has;
    ``most_trials``: how many an adaptive search has in all its generations, 0 for other searches.
    ``budget``: the GPU-seconds that a search may take; ``cost``: the most that a trial, or packed job, takes.
    ``workers``: how many trials of a packed search run at once; None for other runs. ``groups``: its nodes;
    ``ranks``: which tasks are on them. ``replica_cpus``, ``replica_memory`` (MiB) and ``replica_tasks`` are
    per replica; None where they differ.
    """

    description: str | None = None
    tags: tuple[str, ...] = ()
    params: Mapping[str, Any] = MappingProxyType({})
    array: ArraySpec | None = None
    walltime: int | None = None
    requeue: bool = False
    submit_options: tuple[str, ...] = ()
    gpus: int | None = None
    reserved_gpus: int | None = None
    tasks: int | None = None
    labelled: bool | None = None
    metric_patterns: Mapping[str, str] = MappingProxyType({})
    step_pattern: str | None = None
    order: str | None = None
    trials: int | None = None
    most_trials: int | None = None
    budget: int | None = None
    cost: int | None = None
    is_shell: bool = False
    workers: int | None = None
    groups: tuple[NodeGroup, ...] = ()
    ranks: tuple[Ranks, ...] = ()
    replica_cpus: int | None = None
    replica_memory: int | None = None
    replica_tasks: int | None = None
    processes: int | None = None

    def node_of(self, rank: int) -> int | None:
        """Return the number of the node that has this rank; None if that is not known."""
        rows = (row for row in self.ranks if 0 <= rank - row.rank < row.tasks)
        return next((row.node + (rank - row.rank) // row.tasks_per_node for row in rows), None)

    def elements(self, trials: str) -> Elements:
        """Return the elements of a job's array, by the numbers of its trials where it has some."""
        if trials and not self.workers:  # elements of packed trials are workers
            return numbers(trials)
        return Elements(part.indices for part in self.array.ranges) if self.array else Elements()

    @property
    def gpus_had(self) -> int | None:
        """The GPUs that the job, or an element of it, occupies while it runs."""
        return self.gpus if self.reserved_gpus is None else self.reserved_gpus

    @property
    def memory(self) -> int | None:
        """The MiB that the job requests on all nodes; None where it leaves that to the batch system."""
        if not self.groups or any(group.memory is None or group.all_memory for group in self.groups):
            return None
        return sum((group.memory or 0) * group.nodes for group in self.groups)


class _Walltime(msgspec.Struct):
    seconds: int


class _Request(msgspec.Struct):
    walltime: _Walltime | None = None
    array: msgspec.Raw = msgspec.Raw(b"null")
    requeue: bool | None = None
    submit_options: tuple[str, ...] = ()


class _Launch(msgspec.Struct):
    mode: str | None = None
    labelled: bool | None = None


class _Tracking(msgspec.Struct):
    metrics: dict[str, str] = {}
    step: str | None = None


class _Identity(msgspec.Struct):
    description: str | None = None
    tags: tuple[str, ...] = ()
    params: dict[str, Any] = {}
    tracking: _Tracking = field(default_factory=_Tracking)


class _Placement(msgspec.Struct):
    groups: tuple[NodeGroup, ...] = ()
    rows: tuple[Ranks, ...] = ()


class _Pack(msgspec.Struct):
    workers: int


class _Sweep(msgspec.Struct):
    order: str | None = None
    trials: int | None = None
    most_trials: int | None = None
    budget: int | None = None
    cost: int | None = None
    pack: _Pack | None = None


class _Gpus(msgspec.Struct):
    reserved: int | None = None


class _Plan(msgspec.Struct):
    """The file; its other fields are skipped."""

    request: _Request = field(default_factory=_Request)
    launch: _Launch = field(default_factory=_Launch)
    identity: _Identity = field(default_factory=_Identity)
    placement: _Placement = field(default_factory=_Placement)
    gpus: _Gpus = field(default_factory=_Gpus)
    sweep: _Sweep | None = None
    shell: list[Any] = []


_DECODER: Final = msgspec.json.Decoder(_Plan)


def decode(text: bytes) -> StoredPlan:
    """Return the plan of the file's text.

    Raises:
        msgspec.MsgspecError: if the text is no plan.
        RecursionError: if it is nested too deeply.
    """
    plan = _DECODER.decode(text)
    request, identity, sweep = plan.request, plan.identity, plan.sweep or _Sweep()
    groups, rows = plan.placement.groups, plan.placement.rows
    tasks = sum(row.tasks for row in rows) if rows and plan.launch.mode == "tasks" else None
    labelled = (tasks or 0) > 1 or None if plan.launch.labelled is None else plan.launch.labelled
    return StoredPlan(
        identity.description,
        identity.tags,
        identity.params,
        _array(request.array),
        request.walltime.seconds if request.walltime else None,
        requeue=request.requeue is True,
        submit_options=request.submit_options,
        gpus=sum(group.gpus * group.nodes for group in groups) if groups else None,
        reserved_gpus=plan.gpus.reserved,
        tasks=tasks,
        labelled=labelled,
        metric_patterns=identity.tracking.metrics,
        step_pattern=identity.tracking.step,
        order=sweep.order,
        trials=sweep.trials,
        most_trials=sweep.most_trials,
        budget=sweep.budget,
        cost=sweep.cost,
        is_shell=bool(plan.shell),
        workers=sweep.pack.workers if sweep.pack else None,
        groups=groups,
        ranks=() if tasks is None else rows,
        processes=None if tasks is None else sum(row.tasks * row.processes for row in rows),
        **_of_replicas(rows),
    )


def _array(text: msgspec.Raw) -> ArraySpec | None:
    if bytes(text) == b"null":
        return None
    from hpcdist.experiment.batch import ArraySpec  # for arrays alone

    return ArraySpec.parse(str(msgspec.json.decode(text, type=ArraySpec)))


def _of_replicas(rows: tuple[Ranks, ...]) -> dict[str, int | None]:
    """Return the tasks, CPUs and memory of each replica."""
    each = {
        (size, size * row.cpus, None if row.memory is None else size * row.memory)
        for row in rows
        for size in [row.tasks_per_replica]
    }
    only = each.pop() if len(each) == 1 else (None, None, None)
    return dict(zip(("replica_tasks", "replica_cpus", "replica_memory"), only, strict=True))

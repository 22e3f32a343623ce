"""The fields of a run's ``plan.json`` that its state and its logs need.

It is read without the plan models, which would slow down `status`. Runs of versions before plans had pieces
have all fields at the top level, some with other names, and their array as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from hpcdist.experiment.batch_specs import ArraySpec

_OLD: Final = {"mode": "launches"}
"""The former names of fields."""


class Nodes(NamedTuple):
    """Equal nodes of a plan, from number ``node`` on, and what is requested on each; memory is MiB."""

    node: int
    nodes: int
    gpus: int
    memory: int | None = None


class Ranks(NamedTuple):
    """Equal tasks of a plan, from ``rank`` on, so many on each node from number ``node`` on."""

    rank: int
    tasks: int
    per_node: int
    node: int


class StoredPlan(NamedTuple):
    """A plan as stored; fields that are missing or of another type are None or empty.

    ``walltime`` is in seconds. ``gpus``: those that the job, or each element of an array, requests;
    ``reserved_gpus``: with those of whole nodes that it does not ask for, None if unknown. ``tasks``
    is the number of tasks that hpcdist starts, None if the command starts them itself, and ``processes`` that
    of the ranks, of which a torchrun is several. ``labelled``: whether
    lines of the output begin with a rank, None if unknown. ``order``: the metric by which the best trial of a
    search comes first. ``trials``: how many the job has, and ``most_trials`` an adaptive
    search in all its generations; 0 for other searches. ``budget``: the GPU-seconds that a search may take,
    and ``cost`` those that a trial, or packed job, takes at most. ``workers``: how many trials of a packed
    search run at once; None for other runs. ``groups``: its nodes; ``ranks``: which tasks are on them.
    ``replica_cpus``, ``replica_memory`` (MiB) and ``replica_tasks`` are those of each replica; None where
    they differ.
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
    groups: tuple[Nodes, ...] = ()
    ranks: tuple[Ranks, ...] = ()
    replica_cpus: int | None = None
    replica_memory: int | None = None
    replica_tasks: int | None = None
    processes: int | None = None

    def node_of(self, rank: int) -> int | None:
        """Return the number of the node that has this rank; None if that is not known."""
        rows = (row for row in self.ranks if 0 <= rank - row.rank < row.tasks)
        return next((row.node + (rank - row.rank) // row.per_node for row in rows), None)

    @property
    def gpus_had(self) -> int | None:
        """The GPUs that are not others' while the job, or an element of it, runs."""
        return self.gpus if self.reserved_gpus is None else self.reserved_gpus

    @property
    def memory(self) -> int | None:
        """The MiB that the job requests on all nodes; None where it leaves that to the batch system."""
        each = [None if group.memory is None else group.memory * group.nodes for group in self.groups]
        return sum(filter(None, each)) if each and None not in each else None


def read(data: object) -> StoredPlan:
    """Return the plan of the file's data."""
    plan = data if isinstance(data, Mapping) else {}
    request, launch, identity = (_piece(plan, name) for name in ("request", "launch", "identity"))
    patterns, sweep = _mapping(identity("tracking")).get, _mapping(plan.get("sweep"))
    walltime, params = request("walltime"), identity("params")
    seconds = walltime.get("seconds") if isinstance(walltime, Mapping) else None
    tasks = _tasks(plan) if launch("mode") == "tasks" else None
    return StoredPlan(
        description=_text(identity("description")),
        tags=_texts(identity("tags")),
        params=_mapping(params),
        array=_array(request("array")),
        walltime=seconds if isinstance(seconds, int) else None,
        requeue=request("requeue") is True,
        submit_options=_texts(request("submit_options")),
        gpus=_gpus(plan),
        reserved_gpus=_whole(_mapping(plan.get("gpus")).get("reserved")),
        tasks=tasks,
        labelled=_labelled(launch("labelled"), tasks),
        metric_patterns={
            str(name): text for name, text in _mapping(patterns("metrics")).items() if _text(text)
        },
        step_pattern=_text(patterns("step")),
        order=_text(sweep.get("order")),
        trials=_whole(sweep.get("trials")),
        most_trials=_whole(sweep.get("most_trials")),
        budget=_whole(sweep.get("budget")),
        cost=_whole(sweep.get("cost")),
        is_shell=bool(plan.get("shell")),
        workers=_whole(_mapping(sweep.get("pack")).get("workers")),
        groups=_groups(plan),
        ranks=_ranks(plan) if tasks is not None else (),
        processes=_processes(plan) if tasks is not None else None,
        **_of_replicas(plan),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _labelled(value: object, tasks: int | None) -> bool | None:
    """Return the plan's value; a plan of an earlier version has none, and some launchers label one task."""
    return value if isinstance(value, bool) else (tasks or 0) > 1 or None


def _piece(plan: Mapping[str, Any], name: str) -> Callable[[str], Any]:
    """Return a function that looks up a field of this piece."""
    piece = plan.get(name)
    if isinstance(piece, Mapping):
        return piece.get
    return lambda field: plan.get(_OLD.get(field, field))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _array(value: object) -> ArraySpec | None:
    """Parse an array from its text again, so that an edited file cannot contain an invalid one."""
    if value is None:
        return None
    import msgspec  # imported only for arrays

    from hpcdist.experiment.batch_specs import ArraySpec

    try:
        return ArraySpec.parse(value if isinstance(value, str) else str(msgspec.convert(value, ArraySpec)))
    except (ValueError, msgspec.ValidationError):  # the latter is a ValueError only from msgspec 0.21 on
        return None


def _tasks(plan: Mapping[str, Any]) -> int | None:
    try:
        counts = [row["tasks"] for row in plan["placement"]["rows"]]
    except (KeyError, TypeError):
        return None
    return sum(counts) if all(isinstance(count, int) for count in counts) else None


def _processes(plan: Mapping[str, Any]) -> int | None:
    """Return how many processes the tasks are; a plan of an earlier version has tasks alone."""
    rows = [(_whole(row.get("tasks")), _whole(row.get("processes", 1))) for row in _items(plan, "rows")]
    counts = [_product(*row) for row in rows]
    return None if None in counts else sum(filter(None, counts))


def _groups(plan: Mapping[str, Any]) -> tuple[Nodes, ...]:
    """Return the nodes of the plan; none if one of them cannot be read."""
    found: list[Nodes] = []
    for group in _items(plan, "groups"):
        node, nodes, gpus = (_whole(group.get(name)) for name in ("node", "nodes", "gpus"))
        if node is None or nodes is None or gpus is None:
            return ()
        memory = None if group.get("all_memory") else _whole(group.get("memory"))
        found.append(Nodes(node, nodes, gpus, memory))
    return tuple(found)


def _ranks(plan: Mapping[str, Any]) -> tuple[Ranks, ...]:
    """Return which tasks are on which nodes; none if one row cannot be read."""
    found: list[Ranks] = []
    for row in _items(plan, "rows"):
        values = [_whole(row.get(name)) for name in ("rank", "tasks", "tasks_per_node", "node")]
        rank, tasks, per_node, node = values
        if rank is None or tasks is None or node is None or not per_node:
            return ()
        found.append(Ranks(rank, tasks, per_node, node))
    return tuple(found)


def _of_replicas(plan: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the tasks, CPUs and memory of each replica."""
    found: set[tuple[int | None, int | None, int | None]] = set()
    for row in _items(plan, "rows"):
        tasks, cpus, memory = (_whole(row.get(name)) for name in ("tasks_per_replica", "cpus", "memory"))
        found.add((tasks, _product(tasks, cpus), _product(tasks, memory)))
    [only] = found if len(found) == 1 else [(None, None, None)]
    return dict(zip(("replica_tasks", "replica_cpus", "replica_memory"), only, strict=True))


def _product(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _items(plan: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = _mapping(plan.get("placement")).get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _gpus(plan: Mapping[str, Any]) -> int | None:
    try:
        counts = [(group["gpus"], group["nodes"]) for group in plan["placement"]["groups"]]
    except (KeyError, TypeError):
        return None
    is_known = all(type(number) is int for count in counts for number in count)
    return sum(gpus * nodes for gpus, nodes in counts) if is_known else None

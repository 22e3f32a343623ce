"""Plans with one request each, to check that a scheduler writes or refuses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hpcdist.documents.fields import Model
from hpcdist.experiment.batch import Mail
from hpcdist.experiment.batch_specs import ArraySpec, Dependency, SignalSpec, dependency_problems
from hpcdist.plan.model import Identity, JobSpec, Launch, Plan
from hpcdist.plan.origin import Origin
from hpcdist.plan.placement import Group, Placement, Row
from hpcdist.site.conditions import JobFacts
from hpcdist.units import Walltime

J = TypeVar("J", bound=JobSpec)

_PARSED: Final[Mapping[str, Callable[[str], Any]]] = {
    "array": ArraySpec.parse,
    "dependency": Dependency.parse,
    "signal": SignalSpec.parse,
}


class RequestCase(NamedTuple):
    """One request: its field in an experiment, a plan with it, and the same plan without it.

    ``patterns``: regular expressions that must all match in the directives that the request adds; without
    any, the directives must only differ.
    """

    field: str
    plan: Plan
    patterns: tuple[str, ...] = ()
    without: Plan | None = None

    def __str__(self) -> str:
        """Return the differences to the plain plan, for a message."""
        return ", ".join(f"{name}={_text(name, value)!r}" for name, value in differences(self.plan, PLAIN))


def group(node: int = 0, **changes: Any) -> Group:
    """Return one node with one task that has one CPU, with these changes."""
    plain: dict[str, Any] = {
        "partition": None,
        "node_type": None,
        "gpu_type": None,
        "constraint": None,
        "node": node,
        "nodes": 1,
        "rank": node,
        "tasks_per_node": 1,
        "gpus": 0,
        "memory": None,
        "even": True,
        "cpus": 1,
    }
    values = plain | changes
    return Group(
        tasks=values["nodes"], cpus_per_task=values["cpus"], gpus_per_task=values["gpus"] or None, **values
    )


def differences(plan: Plan, other: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a plan's pieces that differ from another plan's, with their values."""
    for piece in (name for name in plan.__struct_fields__ if name != "origins"):
        own, their = getattr(plan, piece), getattr(other, piece)
        if isinstance(own, Model) and type(own) is type(their):
            fields = ((name, getattr(own, name)) for name in own.__struct_fields__)
            yield from ((name, value) for name, value in fields if value != getattr(their, name))
        elif own != their:
            yield piece, own


def altered(plan: J, **changes: Any) -> J:
    """Return the plan, or an earlier stage of it, with changes of pieces, or of fields of one piece.

    ``facts`` repeats what other pieces say, and changes as a whole only.
    An array, dependency or signal may be given as text, as in an experiment.
    """
    changes = {name: _read(name, value) for name, value in changes.items()}
    pieces: dict[str, dict[str, Any]] = {}
    for name in changes.keys() - {*plan.__struct_fields__}:
        (home,) = (
            piece
            for piece in plan.__struct_fields__
            if piece != "facts" and name in getattr(getattr(plan, piece), "__struct_fields__", ())
        )
        pieces.setdefault(home, {})[name] = changes.pop(name)
    inner = {home: msgspec.structs.replace(getattr(plan, home), **fields) for home, fields in pieces.items()}
    return msgspec.structs.replace(plan, **inner, **changes)


def _text(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_text(name, item) for item in value)
    return str(value) if name in _PARSED else value


def _read(name: str, value: Any) -> Any:
    if isinstance(value, tuple) and name in _PARSED:
        return tuple(_read(name, item) for item in value)
    return _PARSED[name](value) if name in _PARSED and isinstance(value, str) else value


def plan(*groups: Group, **changes: Any) -> Plan:
    """Return the plain plan with these groups, and with changes as `altered` takes them."""
    shape = Placement(groups=groups, rows=tuple(map(_row, groups))) if groups else PLAIN.placement
    return altered(PLAIN, placement=shape, **changes)


def _row(of: Group) -> Row:
    return Row(
        role="worker",
        index=of.rank,
        rank=of.rank,
        tasks=of.nodes,
        tasks_per_replica=1,
        tasks_per_node=1,
        node=of.node,
        local_rank=0,
        cpu=0,
        cpus=of.cpus,
        gpu=0,
        gpus=of.gpus,
        memory=of.memory,
    )


PLAIN: Final = Plan(
    identity=Identity(name="mnist", site="anywhere", scheduler="any", command="python train.py"),
    placement=Placement(groups=(group(),), rows=(_row(group()),)),
    facts=JobFacts(1),
    launch=Launch(launcher="mpirun"),
)

_LIMITED: Final = plan(walltime=Walltime(5400))
_MAILED: Final = plan(mail=Mail("me@example.org", ()))

_ARRAYS: Final = {
    "1-9": ("1-9",),
    "1-9:2": ("1-9:2",),
    "1-9%4": ("1-9", r"\b4\b"),
    "0-3": ("0-3",),
    "1,5,7": ("1", "5", "7"),
}
_DEPENDENCIES: Final = (
    "afterok:ID",
    "afterany:ID",
    "afternotok:ID",
    "after:ID",
    "aftercorr:ID",
    "after:ID+5",
    "singleton",
    "afterok:ID,afterany:ID",
    "afterok:ID?afterany:ID",
)
_SIGNALS: Final = {
    "USR1@120": ("USR1", r"\b(120|2)\b"),
    "USR1@600": ("USR1", r"\b(600|10)\b"),
    "INT@120": ("INT",),
    "KILL@120": ("KILL",),
}


def request_cases(job_id: str) -> Iterator[RequestCase]:
    """Yield all requests; those of one field all differ. Some depend on the job ``job_id``."""
    yield RequestCase("batch.account", plan(account="proj-x7"), ("proj-x7",))
    yield RequestCase("batch.partition", plan(group(partition="queue-x7")), ("queue-x7",))
    yield RequestCase("batch.qos", plan(qos="qos-x7"), ("qos-x7",))
    yield RequestCase("batch.walltime", plan(walltime=Walltime(5400)), (r"\b(0?1:30|90|5400s?)\b",))
    yield RequestCase("batch.walltime", plan(walltime=Walltime(10800)), (r"\b(0?3:00|180|10800s?)\b",))
    yield RequestCase("batch.constraint", plan(group(constraint="model=x7")), ("model=x7",))
    yield RequestCase(
        "batch.exclusive", plan(exclusive=True, origins={"exclusive": Origin("place", "experiment.yml:1")})
    )
    yield RequestCase("batch.requeue", plan(requeue=True))
    yield RequestCase("batch.directives", plan(extra_directives=("hello x7",)), ("x7",))
    yield RequestCase("horovod.elastic", plan(elastic=True))
    yield from _lists(job_id)
    yield from _shapes()


def _lists(job_id: str) -> Iterator[RequestCase]:
    for text, patterns in _ARRAYS.items():
        yield RequestCase("batch.array", plan(array=text), patterns)
    for text in _DEPENDENCIES:
        dependency = text.replace("ID", job_id)
        if any(dependency_problems([dependency], ())):
            continue  # not valid in an experiment: ids of PBS cannot have a delay
        waits = plan(dependency=(dependency,))
        yield RequestCase("batch.dependency", waits, (re.escape(job_id if "ID" in text else text),))
    for text, patterns in _SIGNALS.items():
        yield RequestCase("batch.signal", plan(walltime=Walltime(5400), signal=text), patterns, _LIMITED)
    for event in ("begin", "end", "fail", "all", "time_limit_80"):
        mailed = plan(mail=Mail("me@example.org", (event,)))
        yield RequestCase("batch.mail", mailed, (), _MAILED)
    yield RequestCase("batch.mail", _MAILED, ("me@example.org",))


def _shapes() -> Iterator[RequestCase]:
    resources = "environment.resources"
    yield RequestCase(f"{resources}.cpu", plan(group(cpus=5)), (r"\b5\b",))
    yield RequestCase(f"{resources}.memory", plan(group(memory=7000)), ("7000",))
    yield RequestCase(f"{resources}.gpu", plan(group(gpus=3)), (r"\b3\b",))
    yield RequestCase("environment.replicas", plan(group(nodes=6)), (r"\b6\b",))
    two = plan(group(nodes=6), group(6, nodes=7, cpus=3))
    yield RequestCase("environment.replicas", two, (r"\b6\b", r"\b7\b"))

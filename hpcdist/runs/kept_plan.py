"""What a run's ``plan.json`` says, as far as its state and its logs need it.

It is read without the models of plans, which `status` would load for nothing. Runs that were submitted before
plans had pieces have all fields side by side, some under other names, and their array as a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from hpcdist.experiment.batch_specs import ArraySpec

_OLD: Final = {"mode": "launches"}
"""What fields were called before plans had pieces."""


class KeptPlan(NamedTuple):
    """A plan as its file has it; what the file lacks, or holds in another type, is None or empty.

    ``walltime`` is in seconds. ``tasks``: how many hpcdist starts, None where the command starts its own.
    """

    description: str | None = None
    tags: tuple[str, ...] = ()
    array: ArraySpec | None = None
    walltime: int | None = None
    requeue: bool = False
    launcher: str = ""
    tasks: int | None = None


def read(data: object) -> KeptPlan:
    """Return what the data of the file say."""
    plan = data if isinstance(data, Mapping) else {}
    request, launch, identity = (_piece(plan, name) for name in ("request", "launch", "identity"))
    walltime, tags = request("walltime"), identity("tags")
    seconds = walltime.get("seconds") if isinstance(walltime, Mapping) else None
    return KeptPlan(
        description=_text(identity("description")),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        array=_array(request("array")),
        walltime=seconds if isinstance(seconds, int) else None,
        requeue=request("requeue") is True,
        launcher=_text(launch("launcher")) or "",
        tasks=_tasks(plan) if launch("mode") == "tasks" else None,
    )


def _piece(plan: Mapping[str, Any], name: str) -> Callable[[str], Any]:
    """Return what looks up a field of this piece."""
    piece = plan.get(name)
    if isinstance(piece, Mapping):
        return piece.get
    return lambda field: plan.get(_OLD.get(field, field))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _array(value: object) -> ArraySpec | None:
    """Read an array again from its text, so that a file that somebody changed cannot hold what is none."""
    if value is None:
        return None
    import msgspec  # which runs without an array need not

    from hpcdist.experiment.batch_specs import ArraySpec

    try:
        return ArraySpec.parse(value if isinstance(value, str) else str(msgspec.convert(value, ArraySpec)))
    except ValueError:  # msgspec.ValidationError is one
        return None


def _tasks(plan: Mapping[str, Any]) -> int | None:
    try:
        counts = [row["tasks"] for row in plan["placement"]["rows"]]
    except (KeyError, TypeError):
        return None
    return sum(counts) if all(isinstance(count, int) for count in counts) else None

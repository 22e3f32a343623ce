"""Attempts of rehearsals, as a script would have recorded them."""

from __future__ import annotations

from hpcdist.plan.model import ENDS, Rehearsal, Restarts
from hpcdist.studies.rehearsal_record import CheckpointFile, Ending, RehearsedAttempt, Snapshot

PLAN = Restarts(
    on=("timeout", "failure"),
    max=10,
    notice=300,
    signal="USR1",
    no_progress=3,
    rehearsal=Rehearsal(ends=ENDS[:3], seed=0, nodes=1),
)


def file(name: str, inode: int, changed: float = 0, size: int = 100, born: str = "b") -> CheckpointFile:
    return CheckpointFile(inode, size, str(changed), born, name)


def looks(*seen: tuple[float, tuple[CheckpointFile, ...]]) -> tuple[Snapshot, ...]:
    return tuple(Snapshot(at, files) for at, files in seen)


def attempt(
    number: int, *files: tuple[CheckpointFile, ...], kind: str = "", code: int = 137, pause: float = 10
) -> RehearsedAttempt:
    """An attempt of which each look is ten seconds after the one before, and which is then ended."""
    began = 1000.0 * (number + 1)
    seen = looks(*((began + pause * place, each) for place, each in enumerate(files)))
    kind = kind or (*ENDS[:3], "last")[number]
    at = began + pause * len(files)
    end = {"notice": Ending(at, "notice"), "last": Ending(at, "last")}.get(kind, Ending(at, kind, "n1", "0"))
    return RehearsedAttempt(
        number, f"7/0.{number}", kind, began, seen, (end,), is_enough=kind == "last", ended=at + 1, code=code,
        read=frozenset(each.state for look in seen[:1] for each in look.files),
    )  # fmt: skip


def whole(number: int, saved: int) -> RehearsedAttempt:
    """An attempt that goes on after so many checkpoints, each moved into place, and writes two."""
    found = (file("c", saved, saved),) if saved else ()
    return attempt(number, found, (file("c", saved + 1, saved + 1),), (file("c", saved + 2, saved + 2),))

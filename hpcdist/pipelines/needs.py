"""What an operation needs: as it lists it, and by the outputs that it uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path, Problem, unknown
from hpcdist.pipelines import references
from hpcdist.pipelines.model import CONDITIONS, Need

_SINGLETON: Final = "it has one in `batch: {dependency: singleton}` of the operation itself"

Placed = tuple[Path, Need]
"""A need, and where it is written."""


def needs_of(body: Map, rest: Map, path: Path, others: Sequence[str]) -> tuple[list[Placed], list[Problem]]:
    """Return what an operation needs, each other one once, with the problems of what it lists and uses.

    ``rest``: its experiment, whose references to outputs are needs as well; ``others``: the operations that
    it may need.
    """
    found: dict[str, Placed] = {}
    problems: list[Problem] = []
    for where, other, condition in _written(body, path):
        if condition not in CONDITIONS:
            hint = _SINGLETON if condition == "singleton" else f"known: {', '.join(CONDITIONS)}"
            problems.append(Problem(f"no operation waits in the way {condition!r}", where, hint))
        elif other not in others:
            problems.append(_no_operation(other, body, others, where))
        elif other in found:
            message = f"it waits for {other} already ({found[other][1].condition})"
            problems.append(Problem(message, where, "name each operation once"))
        else:
            found[other] = (where, Need(other, str(condition)))
    for where, other in references.operations(rest, path):
        if other not in others:
            problems.append(_no_operation(other, body, others, where))
        else:
            found.setdefault(other, (where, Need(other)))
    return [*found.values()], problems


def _written(body: Map, path: Path) -> Iterator[tuple[Path, str, object]]:
    """Yield what it lists: where, the other operation, and the condition."""
    for key in ("needs", "dependencies"):
        written = body.get(key)
        if isinstance(written, Map):
            for other, condition in written.items():
                yield (*path, key, other), other, condition
        elif isinstance(written, Seq):
            for at, text in enumerate(written):
                yield (*path, key, at), *_condition(text)
        elif written is not None:
            yield (*path, key), *_condition(written)


def _condition(text: object) -> tuple[str, str]:
    """Read ``prep`` and ``afterany:prep``: an operation and the way of its end."""
    condition, colon, name = str(text).partition(":")
    return (name, condition) if colon else (str(text), "singleton" if text == "singleton" else "afterok")


def _no_operation(other: str, body: Map, others: Sequence[str], where: Path) -> Problem:
    if other == str(body.get("name")):
        return Problem(f"operation {other!r} would wait for itself", where)
    return unknown("operation", other, others, where)

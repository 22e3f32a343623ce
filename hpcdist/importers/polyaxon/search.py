"""Searches of Polyaxon 0.x (``hptuning.matrix``, until 0.1.0 ``matrix``): the jobs to submit instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpcdist.importers.searches import Trials, grid, plain_values, submit_hint

_ARRAY: Final = "write one experiment and its array yourself, as `batch.array`"
_MATRICES: Final = (("hptuning", "matrix"), ("settings", "matrix"), ("matrix",))


def hint_of(data: Mapping[str, Any]) -> str:
    """Return what to do instead of the search, with its jobs where the file lists their values."""
    trials = _trials(data)
    return submit_hint(trials, _change(data, trials.first[0])) if trials else _ARRAY


def _trials(data: Mapping[str, Any]) -> Trials | None:
    matrix: Any = next(filter(None, (_at(data, path) for path in _MATRICES)), {})
    names = matrix if isinstance(matrix, Mapping) else ()
    choices = {name: plain_values(_at(matrix, (name, "values"))) for name in names}
    return grid(choices) if choices and all(choices.values()) and not data.get("inputs") else None


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        node = node.get(step) if isinstance(node, Mapping) else None
    return node if isinstance(node, (Mapping, list)) else {}


def _change(data: Mapping[str, Any], first: Mapping[str, object]) -> str:
    given = ", ".join(f"{name}: {value}" for name, value in first.items())
    there = next((key for key in ("params", "declarations") if data.get(key)), "")
    return f"add `{given}` to `{there}` instead" if there else f"write `params: {{{given}}}` instead"

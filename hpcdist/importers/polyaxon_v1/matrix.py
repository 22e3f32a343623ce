"""Refuses searches over params, with the command-line options of their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.importers.reading import Reading
from hpcdist.importers.searches import Trials, from_list, grid, plain_values, submit_hint

_KEYS: Final = ("matrix", "parallel")
"""The second is its name in the previews of Polyaxon 1."""
_UNKNOWN: Final = "remove it, and submit once for each with `-p NAME=VALUE`, or write `batch: {array: ...}`"


def refuse_matrix(read: Reading) -> None:
    """Refuse a search, with its jobs where the file lists their values."""
    for key in _KEYS:
        if read.get(key):
            kind = read.peek(key, "kind")
            trials = _trials(read, key, kind)
            hint = submit_hint(trials, "remove it") if trials else _UNKNOWN
            read.refuse(key, why=f"a search ({kind}) is many jobs", hint=hint)


def _trials(read: Reading, key: str, kind: object) -> Trials | None:
    """Return the trials of a search, None if some of their values are not listed."""
    if kind == "mapping":
        values = [item for _, item in read.items(key, "values")]
        return from_list(values) if values and all(map(_is_plain, values)) else None
    choices = {name: _choices(read.peek(key, "params", name)) for name in read.keys(key, "params")}
    known = kind in ("grid", "random") and choices and all(choices.values())
    return grid(choices) if known else None


def _choices(param: object) -> list[object]:
    is_choice = isinstance(param, Mapping) and param.get("kind") == "choice"
    return plain_values(param.get("value")) if is_choice and isinstance(param, Mapping) else []


def _is_plain(values: object) -> bool:
    return isinstance(values, Mapping) and not any(isinstance(item, (dict, list)) for item in values.values())

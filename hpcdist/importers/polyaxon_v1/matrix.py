"""Refuses searches over params, with the command-line options of their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.documents import scalars
from hpcdist.importers.reading import Reading
from hpcdist.importers.searches import Trials, as_options, from_list, grid, plain_values, submit_hint

_KEYS: Final = ("matrix", "parallel")
"""The second is its name in the previews of Polyaxon 1."""


def refuse_matrix(read: Reading) -> Mapping[str, object]:
    """Refuse a search, with its jobs where the file lists their values; return the params of one job."""
    first: Mapping[str, object] = {}
    for key in _KEYS:
        if read.get(key):
            kind = read.peek(key, "kind")
            trials, first = _trials(read, key, kind), _first(read, key)
            why = f"a search ({kind}) is many jobs"
            read.refuse(key, why=why, hint=submit_hint(trials, "remove it") if trials else _without(first))
    return first


def _without(first: Mapping[str, object]) -> str:
    each = f" with `{as_options(first)}` and the like" if first else ""
    return f"remove it, and submit once for each{each}, or write `batch: {{array: ...}}`"


def _first(read: Reading, key: str) -> Mapping[str, object]:
    """Return a value of each param of a search, as far as the file has one."""
    if isinstance(first := read.peek(key, "values", 0), Mapping):
        return first
    found = {name: _a_value(read.peek(key, "params", name, "value")) for name in read.keys(key, "params")}
    return {name: value for name, value in found.items() if value is not None}


def _a_value(values: object) -> object:
    """Return the first value of a list, or the first bound of a range or a distribution."""
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, str):
        return scalars.resolve(values.split(":")[0])
    return _a_value(values[0]) if isinstance(values, list) and values else values


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

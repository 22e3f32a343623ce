"""A search over params, which is many jobs: it is refused with the options of each of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hpcdist.importers.reading import Reading
from hpcdist.words import quote

_KEYS: Final = ("matrix", "parallel")
"""The second is its name in the previews of Polyaxon 1."""
_SHOWN: Final = 3


class _Trials(NamedTuple):
    """How many jobs a search is, and the options of the first ones."""

    number: int
    first: tuple[str, ...]


def refuse_matrix(read: Reading) -> None:
    """Refuse a search, with its jobs where the file lists their values."""
    for key in _KEYS:
        if read.get(key):
            kind = read.peek(key, "kind")
            read.refuse(key, why=f"a search ({kind}) is many jobs", hint=_hint(_trials(read, key, kind)))


def options(params: Mapping[str, object]) -> str:
    """Return params as options of the command line: ``-p lr=0.1 -p epochs=3``."""
    return " ".join(f"-p {quote(f'{name}={value}')}" for name, value in params.items())


def _hint(trials: _Trials | None) -> str:
    if trials is None:
        return "remove it, and submit once for each with `-p NAME=VALUE`, or write `batch: {array: ...}`"
    more = f" and so on, {trials.number} in all" if trials.number > _SHOWN else ""
    return (
        f"remove it, and submit once for each: {', '.join(f'`{words}`' for words in trials.first)}{more}; or "
        f"write `batch: {{array: 0-{trials.number - 1}}}`, and let the command choose by the element's number"
    )


def _trials(read: Reading, key: str, kind: object) -> _Trials | None:
    """Return the trials of a search, None where some of their values are not listed."""
    if kind == "mapping":
        values = [item for _, item in read.items(key, "values")]
        return _Trials(len(values), _first(values)) if values and all(map(_is_plain, values)) else None
    names = read.keys(key, "params")
    choices = [_choices(read.peek(key, "params", name)) for name in names]
    if kind not in ("grid", "random") or not choices or not all(choices):
        return None
    products = (dict(zip(names, values, strict=True)) for values in itertools.product(*choices))
    return _Trials(math.prod(map(len, choices)), _first(products))


def _first(trials: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(map(options, itertools.islice(trials, _SHOWN)))


def _choices(param: object) -> list[object]:
    listed = param.get("value") if isinstance(param, Mapping) and param.get("kind") == "choice" else None
    plain = isinstance(listed, list) and not any(isinstance(item, (dict, list)) for item in listed)
    return list(listed) if plain and listed else []


def _is_plain(values: object) -> bool:
    return isinstance(values, Mapping) and not any(isinstance(item, (dict, list)) for item in values.values())

"""Trials of searches over params, for the hint that lists the jobs to submit instead."""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.words import quote

_SHOWN: Final = 3
_OF_TEMPLATES: Final = frozenset({"true", "false", "none", "range", "loop", "self"})


class Trials(NamedTuple):
    """The number of jobs of a search, and the params of the first ones."""

    number: int
    first: tuple[Mapping[str, object], ...]


def param_name(name: str) -> str:
    """Return the name that templates can have for a param: ``learning_rate`` for ``learning-rate``."""
    param = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not param.isidentifier() or param.lower() in _OF_TEMPLATES or keyword.iskeyword(param):
        param = f"_{param}" if param[:1].isdigit() else f"{param}_"
    return param


def grid(choices: Mapping[str, Sequence[object]]) -> Trials:
    """Return the trials of a grid: all combinations of values."""
    products = (dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))
    return Trials(math.prod(map(len, choices.values())), _first(products))


def from_list(trials: Sequence[Mapping[str, object]]) -> Trials:
    """Return trials that are listed one by one."""
    return Trials(len(trials), _first(trials))


def plain_values(node: object) -> list[object]:
    """Return the values of a list, an empty list if it is not a list or has a nested value."""
    plain = isinstance(node, list) and not any(isinstance(item, (dict, list)) for item in node)
    return list(node) if plain and isinstance(node, list) else []


def as_options(params: Mapping[str, object]) -> str:
    """Return params as options of the command line: ``-p lr=0.1 -p epochs=3``."""
    return " ".join(f"-p {quote(f'{name}={value}')}" for name, value in params.items())


def submit_hint(trials: Trials, change: str) -> str:
    """Return the hint of a refused search; ``change`` is the edit that the file needs first."""
    shown = ", ".join(f"`{as_options(params)}`" for params in trials.first)
    more = f" and so on, {trials.number} in all" if trials.number > _SHOWN else ""
    return (
        f"{change}, and submit once for each: {shown}{more}; or write "
        f"`batch: {{array: 0-{trials.number - 1}}}`, and let the command choose by the element's number"
    )


def _first(trials: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    return tuple(itertools.islice(trials, _SHOWN))

"""How much a report shows of each run, so that its size stays bounded however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_RUNS: Final = 500
MOST_ITEMS: Final = 1000
"""Runs, of which each element of an array is one."""

MOST_SERIES: Final = 2000
MOST_PLOTS: Final = 300
LONGEST_NAME: Final = 200
"""Characters of the name of a metric or param, which stands in several places."""

_TASKS: Final = 10_000
_TRIALS: Final = 20_000
_CELLS: Final = 12_000
_POINTS: Final = 100_000
POINTS_OF_A_SERIES: Final = 2000
_FEWEST_POINTS: Final = 40
_CHARACTERS: Final = 2_400_000
_CHARACTERS_OF_A_RUN: Final = 200_000

OVERHEAD: Final = 60
"""Characters of markup that a line of a table has beside its text."""


@dataclass(frozen=True)
class Share(Generic[T]):
    """Those that are shown, and how many are not."""

    items: Sequence[T] = ()
    left_out: int = 0


class Limits(NamedTuple):
    """How many characters each part of a run may have, and how many tasks and trials are drawn."""

    log: int
    plan: int
    others: int
    tasks: int
    trials: int

    @classmethod
    def of(cls, runs: int) -> Limits:
        """Return the limits of each of so many runs."""
        each = min(_CHARACTERS_OF_A_RUN, _CHARACTERS // max(runs, 1))
        tasks = min(400, _TASKS // max(runs, 1))
        trials = min(MOST_ITEMS, _TRIALS // max(runs, 1))
        return cls(log=each * 3 // 10, plan=each * 5 // 10, others=each // 20, tasks=tasks, trials=trials)


def points(series: int) -> int:
    """Return how many points each of so many series has."""
    return max(_FEWEST_POINTS, min(POINTS_OF_A_SERIES, _POINTS // max(series, 1)))


def columns(rows: int) -> int:
    """Return how many params, and as many metrics, a table of so many rows has."""
    return max(6, min(24, _CELLS // max(rows, 1)))


def first(
    items: Iterable[T], characters: int, size: Callable[[T], int] = lambda item: len(str(item))
) -> Share[T]:
    """Return as many of the first items as have so many characters together."""
    found = [*items]
    used = count = 0
    for item in found:
        used += size(item) + OVERHEAD
        if used > characters:
            break
        count += 1
    return Share(found[:count], len(found) - count)


def at_most(items: Iterable[T], count: int) -> Share[T]:
    """Return so many of the first items."""
    found = [*items]
    return Share([*islice(found, count)], max(0, len(found) - count))

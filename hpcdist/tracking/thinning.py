"""Fewer points of a long series: means for a sparkline, lowest and highest values for a plot."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise


def means(values: Sequence[float], most: int) -> list[float]:
    """Return at most so many values: means of the finite ones of equal shares, NaN where there is none."""
    shares = (values[start:end] for start, end in _shares(len(values), most))
    return [_mean([value for value in share if math.isfinite(value)]) for share in shares]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def extremes(values: array[float], most: int) -> list[int]:
    """Return the places of at most so many values (at least five), whose curve looks like that of all.

    They are in order the first and the last, and of equal shares between them the lowest and the highest
    finite one, and one that is not finite if there is any: a gap stays a gap.
    """
    count = len(values)
    if count <= most:
        return [*range(count)]
    kept = {0, count - 1}
    for start, end in _shares(count - 2, (most - 2) // 3):
        kept.update(_ends(values, range(start + 1, end + 1)))
    return sorted(kept)


def _ends(values: array[float], places: range) -> Iterator[int]:
    share = values[places.start : places.stop]
    finite = share if math.isfinite(sum(share)) else array("d", filter(math.isfinite, share))
    if finite:
        yield places.start + share.index(min(finite))
        yield places.start + share.index(max(finite))
    if len(finite) < len(share):
        yield next(place for place in places if not math.isfinite(values[place]))


def _shares(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield where each of at most so many equal shares begins and ends."""
    number = min(most, count)
    return pairwise(share * count // number for share in range(number + 1)) if number > 0 else iter(())

"""The points of one series, in three arrays: 24 bytes each."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import le
from typing import NamedTuple


class Points(NamedTuple):
    """Values by their steps, with the time in seconds since 1970: three arrays of one length, never empty."""

    steps: array[float]
    values: array[float]
    times: array[float]


def add(found: dict[str, Points], name: str, point: tuple[float, float, float]) -> None:
    """Add step, value and time to the points of this metric."""
    points = found.get(name)
    if points is None:
        points = found[name] = Points(array("d"), array("d"), array("d"))
    points.steps.append(point[0])
    points.values.append(point[1])
    points.times.append(point[2])


def in_line(points: Points, start: float) -> Points:
    """Return these points with steps that never go back; what has none comes one after the one before it.

    Where a step goes back, as it does when a training is restored in its own process, its value and those
    after it hold, and the values of its and of later steps before it are left out. ``start``: the step of the
    first point if that has none.
    """
    if not all(map(math.isfinite, points.steps)):
        points = points._replace(steps=array("d", _numbered(points.steps, start)))
    if all(map(le, points.steps, islice(points.steps, 1, None))):
        return points
    kept = Points(array("d"), array("d"), array("d"))
    for point in zip(*points, strict=True):
        if kept.steps and point[0] < kept.steps[-1]:
            first = bisect_left(kept.steps, point[0])
            for column in kept:
                del column[first:]
        for column, value in zip(kept, point, strict=True):
            column.append(value)
    return kept


def _numbered(steps: Iterable[float], start: float) -> Iterator[float]:
    for step in steps:
        number = step if math.isfinite(step) else start
        yield number
        start = number + 1

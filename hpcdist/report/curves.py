"""The metrics of runs as plots: one a metric, with a curve a run; long ones keep their extremes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from hpcdist.report import limits
from hpcdist.report.limits import Share
from hpcdist.report.text import visible
from hpcdist.tracking import series
from hpcdist.tracking.series import Points


class Row(NamedTuple):
    """What a series of so many values comes to; ``low`` and ``high`` are finite, each with its step."""

    item: int
    label: str
    values: int
    last: float
    step: float
    low: tuple[float, float] | None
    high: tuple[float, float] | None


class Series(NamedTuple):
    """A metric of a run or element: what it comes to, and as many of its points as a plot may have."""

    metric: str
    row: Row
    points: Points
    began: float

    @classmethod
    def of(cls, metric: str, name: tuple[int, str], points: Points, began: float) -> Series:
        """Return the series of these points; ``name`` is the number of the item, and what it is called."""
        places = series.extremes(points.values, limits.POINTS_OF_A_SERIES)
        thin = Points(*(array("d", (column[place] for place in places)) for column in points))
        return cls(metric, _row(name, points), thin, began)


class Plot(NamedTuple):
    """A metric: a row and a trace for each of its series; ``traces`` is data for JSON."""

    name: str
    rows: Sequence[Row]
    traces: Sequence[Mapping[str, Any]]


def plots(found: Iterable[Series]) -> Share[Plot]:
    """Return a plot for each metric by name; ``left_out`` counts series."""
    there = sorted(found, key=lambda one: (one.metric, one.row.item))
    names = [*dict.fromkeys(one.metric for one in there)][: limits.MOST_PLOTS]
    shown = [one for one in there if one.metric <= names[-1]][: limits.MOST_SERIES]
    most = limits.points(len(shown))
    return Share([*map(partial(_plot, most), _by_metric(shown))], len(there) - len(shown))


def _by_metric(found: Iterable[Series]) -> Iterator[list[Series]]:
    return ([*group] for _, group in groupby(found, key=lambda one: one.metric))


def _plot(most: int, group: Sequence[Series]) -> Plot:
    return Plot(group[0].metric, [one.row for one in group], [_trace(one, most) for one in group])


def _row(name: tuple[int, str], points: Points) -> Row:
    item, label = name
    steps, values, _ = points
    summary = series.summary(points)
    low, high = (
        None if end is None else (end, steps[values.index(end)]) for end in (summary.low, summary.high)
    )
    return Row(item, label, len(values), values[-1], steps[-1], low, high)


def _trace(one: Series, most: int) -> dict[str, Any]:
    places = series.extremes(one.points.values, most)
    steps, values, times = ([column[place] for place in places] for column in one.points)
    is_timed = any(time > 0 for time in times)
    return {
        "item": one.row.item,
        "label": visible(one.row.label),
        "x": [*_numbers(steps, 12)],
        "y": [*_numbers(values, 7)],
        "t": [*_numbers((time - one.began for time in times), 7)] if is_timed else None,
    }


def _numbers(values: Iterable[float], digits: int) -> Iterator[float | int | None]:
    """Yield numbers for JSON in so many digits; None for what is not finite."""
    for value in values:
        if not math.isfinite(value):
            yield None
            continue
        short = float(f"{value:.{digits}g}")
        yield int(short) if short.is_integer() and abs(short) < 1e15 else short  # noqa: PLR2004 - exact in JavaScript

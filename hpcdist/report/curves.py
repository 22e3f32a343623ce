"""The metrics of runs as plots: one a metric, with a curve a run; long ones keep their extremes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpcdist.report import limits
from hpcdist.report.limits import Share
from hpcdist.report.text import visible
from hpcdist.tracking import series, thinning
from hpcdist.tracking.series import Points


class Series(NamedTuple):
    """The points of a metric; ``item`` is the number of the run or element, ``rank`` None if it has one."""

    metric: str
    item: int
    label: str
    points: Points
    began: float


class Row(NamedTuple):
    """What a series of so many values comes to; ``low`` and ``high`` are finite, each with its step."""

    label: str
    item: int
    values: int
    last: float
    step: float
    low: tuple[float, float] | None
    high: tuple[float, float] | None


class Plot(NamedTuple):
    """A metric: a row and a trace for each of its series; ``traces`` is data for JSON."""

    name: str
    rows: Sequence[Row]
    traces: Sequence[Mapping[str, Any]]


def plots(found: Iterable[Series]) -> Share[Plot]:
    """Return a plot for each metric by name; ``left_out`` counts series."""
    shown, left_out = limits.at_most(
        sorted(found, key=lambda one: (one.metric, one.item)), limits.MOST_SERIES
    )
    most = limits.points(len(shown))
    by_name: dict[str, list[Series]] = {}
    for one in shown:
        by_name.setdefault(one.metric, []).append(one)
    return Share(
        [
            Plot(name, [*map(_row, group)], [_trace(one, most) for one in group])
            for name, group in by_name.items()
        ],
        left_out,
    )


def _row(one: Series) -> Row:
    steps, values, _ = one.points
    summary = series.summary(one.points)
    low, high = (
        None if end is None else (end, steps[values.index(end)]) for end in (summary.low, summary.high)
    )
    return Row(one.label, one.item, len(values), values[-1], steps[-1], low, high)


def _trace(one: Series, most: int) -> dict[str, Any]:
    places = thinning.extremes(one.points.values, most)
    steps, values, times = ([column[place] for place in places] for column in one.points)
    is_timed = any(time > 0 for time in times)
    return {
        "item": one.item,
        "label": visible(one.label),
        "x": [*_numbers(steps, 12)],
        "y": [*_numbers(values, 7)],
        "t": [*_numbers((time - one.began for time in times), 7)] if is_timed else None,
        "of": len(one.points.values),
    }


def _numbers(values: Iterable[float], digits: int) -> Iterator[float | int | None]:
    """Yield numbers for JSON in so many digits; None for what is not finite."""
    for value in values:
        if not math.isfinite(value):
            yield None
            continue
        short = float(f"{value:.{digits}g}")
        yield int(short) if short.is_integer() and abs(short) < 1e15 else short  # noqa: PLR2004 - exact in JavaScript

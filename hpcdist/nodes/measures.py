"""What can be compared between the ranks of an attempt: a measure has a value of each rank at each step.

In a synchronous training all ranks take equally long for a step, since they wait for the slowest one at each
collective operation. It shows in what each measures of its own work, and in when it records a step before it
meets the others. Ranks that do not wait for each other differ in the time from one record to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.nodes.peers import median
from hpcdist.nodes.recorded import Point, Rank

_SECONDS: Final = re.compile(r"(^|[/_. ])(seconds|secs?|ms|time|duration|latency)($|[/_. ])", re.IGNORECASE)
_RATE: Final = re.compile(
    r"(_per_|/)(s|secs?|seconds?)$|(^|[/_. ])(throughput|fps|speed|ips|rate_of_\w+)($|[/_. ])", re.IGNORECASE
)
_WAITING: Final = re.compile(
    r"wait|sync|barrier|idle|comm|reduce|gather|broadcast|negotiat|stall|total|elapsed|wall|remaining|eta\b",
    re.IGNORECASE,
)
"""Who is slow waits least; what adds up over the steps, or counts down, compares no steps."""

_SHARE: Final = 0.9
"""Of the ranks: what fewer of them record is not the work that all do."""


class Measure(NamedTuple):
    """One measure: its ``name``, ``values`` by rank of which larger ones are slower, and the steps of them.

    ``is_rate``: the values are those that were recorded, inverted. ``is_own``: each rank measured its own
    work. ``unit``: the values are 1 and the lateness as a share of so many seconds, by the clocks of the
    nodes; 0 for others.
    """

    name: str
    values: Mapping[int, Sequence[float]]
    steps: Sequence[float | None]
    is_rate: bool = False
    is_own: bool = False
    unit: float = 0.0

    def shown(self, value: float) -> str:
        """Return a value as what was recorded."""
        return f"{1 / value if self.is_rate and value else value:.4g}"


def measures(ranks: Sequence[Rank]) -> Iterator[Measure]:
    """Yield what ranks recorded of their own work, then their intervals, then how late they record a step."""
    for name in _names(ranks):
        series = {each.rank: [point for point in each.points if name in point.metrics] for each in ranks}
        if own := _own(name, {rank: points for rank, points in series.items() if points}):
            yield own
    firsts = {each.rank: firsts for each in ranks if len(firsts := _firsts(each.points)) > 1}
    if firsts:
        yield _intervals(firsts)
        if late := _lateness(firsts):
            yield late


def _names(ranks: Sequence[Rank]) -> list[str]:
    counts: dict[str, int] = {}
    for each in ranks:
        for name in {name for point in each.points for name in point.metrics}:
            counts[name] = counts.get(name, 0) + 1
    timed = (name for name, count in counts.items() if count >= _SHARE * len(ranks))
    return sorted(name for name in timed if _is_rate(name) is not None)


def _is_rate(name: str) -> bool | None:
    """Whether a metric of this name is a rate rather than a time; None if it is neither."""
    if _WAITING.search(name):
        return None
    return True if _RATE.search(name) else False if _SECONDS.search(name) else None


def _own(name: str, series: Mapping[int, Sequence[Point]]) -> Measure | None:
    is_rate = bool(_is_rate(name))
    found = {
        rank: [(point.step, value) for point in points if (value := point.metrics[name]) > 0]
        for rank, points in series.items()
    }
    steps, values = _aligned(found)
    if is_rate:
        values = {rank: [1 / value for value in row] for rank, row in values.items()}
    return Measure(name, values, steps, is_rate=is_rate, is_own=True) if values else None


Row = Sequence[tuple[float | None, float]]


def _aligned(found: Mapping[int, Row]) -> tuple[Sequence[float | None], dict[int, list[float]]]:
    """Return the values at the steps that all ranks have; where these are few, as many last ones of each."""
    by_step = {rank: {step: value for step, value in row if step is not None} for rank, row in found.items()}
    common = set.intersection(*map(set, by_step.values())) if by_step else set()
    fewest = min(map(len, found.values()), default=0)
    if len(common) >= fewest / 2 and common:
        steps = sorted(common)
        return steps, {rank: [row[step] for step in steps] for rank, row in by_step.items()}
    last = {rank: row[len(row) - fewest :] for rank, row in found.items()}
    return [None] * fewest, {rank: [value for _, value in row] for rank, row in last.items()}


def _firsts(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return when each step was first recorded, in a line of steps that goes on."""
    found: list[tuple[float, float]] = []
    for point in points:
        if point.step is not None and (not found or point.step > found[-1][0]):
            found.append((point.step, point.at))
    return found


def _intervals(firsts: Mapping[int, Sequence[tuple[float, float]]]) -> Measure:
    """Return the seconds for each step, by the clock of each rank's own node."""
    found: dict[int, Row] = {
        rank: [(None, (at - before) / (step - other)) for (other, before), (step, at) in pairwise(row)]
        for rank, row in firsts.items()
    }
    steps, values = _aligned(found)
    return Measure("the time for a step", values, steps)


def _lateness(firsts: Mapping[int, Sequence[tuple[float, float]]]) -> Measure | None:
    """Return how late each rank records a step, as a share of the time from one record to the next."""
    found: dict[int, Row] = {rank: [*row] for rank, row in firsts.items()}
    steps, times = _aligned(found)
    if len(steps) <= 1 or None in steps:
        return None
    usual = [median(column) for column in zip(*times.values(), strict=True)]
    unit = median(after - before for before, after in pairwise(usual))
    if unit <= 0:
        return None
    values = {
        rank: [1 + (at - middle) / unit for at, middle in zip(row, usual, strict=True)]
        for rank, row in times.items()
    }
    return Measure("the time at which it records a step", values, steps, unit=unit)

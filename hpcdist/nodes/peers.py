"""Who is slower than its peers: robust statistics over what several members show at the same steps.

A member stands out where its values are above those of the others by a tenth at least, by much more than
the members differ among themselves and than its values vary, and steadily: over the last half of the steps or
more. Medians are used throughout, so that steps with a checkpoint or an evaluation, and members that are far
off, do not move what the others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log1p, sqrt
from typing import Final, NamedTuple

FEWEST: Final = 3
"""Members: of two that differ, nobody knows which is as it should be."""

FEWEST_STEPS: Final = 20

_BLOCKS: Final = 4
_LATEST: Final = 2
"""Of the four quarters of the steps, who is slow is so from the third on at the latest."""

_LOWEST: Final = -0.99
"""Ratios are compared by their logarithms: noise moves that of a member ten times as slow by as much more."""

_LEAST: Final = 0.1
"""GPUs of one kind differ by some percent in their clocks."""

_SPREADS: Final = 6.0
_ERRORS: Final = 5.0
"""Standard deviations: at six and five, one in a hundred million members with equal noise is above."""

_SIGMA: Final = 1.4826
"""The standard deviation of normal noise is so many times its median absolute deviation."""

_ERROR_OF_MEDIAN: Final = 1.2533
"""The standard error of the median of normal noise, as a multiple of that of the mean."""

_MOST: Final = 0.4
"""Above this share of the members, those that differ are not outliers but another kind."""


class Outlier(NamedTuple):
    """A member that stands out: its median and that of its peers, over the steps from place ``since`` on.

    ``excess``: how far it is above them at the same steps, 0.5 for one and a half times.
    """

    member: int
    value: float
    peers: float
    excess: float
    since: int


class Comparison(NamedTuple):
    """What comparing came to; ``most`` is the largest excess of any member, which need not stand out."""

    members: int
    steps: int
    most: float
    outliers: tuple[Outlier, ...]

    @property
    def largest(self) -> float:
        """The largest excess of a member that stands out."""
        return max((each.excess for each in self.outliers), default=0.0)


def median(values: Iterable[float]) -> float:
    """Return the median; `statistics` takes longer to import than it saves."""
    ranked = sorted(values)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2


def compare(values: Mapping[int, Sequence[float]]) -> Comparison | None:
    """Compare the values of members, each at the same steps; larger ones are slower.

    None where there are too few members, or too few steps at which their median is above zero.
    """
    if len(values) < FEWEST:
        return None
    usual = [median(column) for column in zip(*values.values(), strict=True)]
    excess = {
        member: [value / other - 1 if other > 0 else 0.0 for value, other in zip(row, usual, strict=True)]
        for member, row in values.items()
    }
    steps = sum(other > 0 for other in usual)
    if steps < max(FEWEST_STEPS, len(usual) / 2):
        return None
    steps = len(usual)
    starts = [steps * number // _BLOCKS for number in range(_BLOCKS + 1)]
    slow = [
        _slow({member: row[begin:end] for member, row in excess.items()}) for begin, end in pairwise(starts)
    ]
    found = [_outlier(member, starts[first], values, excess) for member, first in _steady(slow).items()]
    most = max(median(row) for row in excess.values())
    if len(found) > _MOST * len(values):
        found = []
    ranked = sorted(found, key=lambda each: -each.excess)
    return Comparison(len(values), steps, most, tuple(ranked))


def _slow(excess: Mapping[int, Sequence[float]]) -> set[int]:
    """Return the members that are above the others in these steps."""
    logs = {member: [log1p(max(value, _LOWEST)) for value in row] for member, row in excess.items()}
    medians = {member: median(row) for member, row in logs.items()}
    middle = median(medians.values())
    least = max(_LEAST, _SPREADS * _SIGMA * median(abs(each - middle) for each in medians.values()))
    above = [member for member, value in medians.items() if value - middle > least]
    if not above:
        return set()
    errors = {member: _error(row, medians[member]) for member, row in logs.items()}
    usual = median(errors.values())
    return {member for member in above if medians[member] - middle > _ERRORS * max(usual, errors[member])}


def _error(row: Sequence[float], middle: float) -> float:
    """Return the standard error of the median of these values."""
    return _ERROR_OF_MEDIAN * _SIGMA * median(abs(each - middle) for each in row) / sqrt(len(row))


def _steady(slow: Sequence[set[int]]) -> dict[int, int]:
    """Return the members that are slow up to the end, each with the first block from which on they are."""
    found: dict[int, int] = {}
    for member in slow[-1]:
        first = len(slow) - 1
        while first > 0 and member in slow[first - 1]:
            first -= 1
        if first <= _LATEST:
            found[member] = first
    return found


def _outlier(
    member: int, since: int, values: Mapping[int, Sequence[float]], excess: Mapping[int, Sequence[float]]
) -> Outlier:
    others = median(median(row[since:]) for other, row in values.items() if other != member)
    return Outlier(member, median(values[member][since:]), others, median(excess[member][since:]), since)

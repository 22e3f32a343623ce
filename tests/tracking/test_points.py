"""Points of one series in one line."""

from __future__ import annotations

import math
from array import array

from hypothesis import given
from hypothesis import strategies as st

from hpcdist.tracking.series import Points, in_line

STEPS = st.integers(-3, 12).map(float) | st.just(math.nan) | st.just(math.inf)


def points(steps: list[float]) -> Points:
    """Return points whose values are their numbers."""
    return Points(*(array("d", column) for column in (steps, range(len(steps)), range(len(steps)))))


def test_where_a_step_goes_back_the_later_values_hold() -> None:
    line = in_line(points([1, 2, 3, 2, 1, 1, 5]), 0)
    assert [*zip(line.steps, line.values, strict=True)] == [(1, 4), (1, 5), (5, 6)]


def test_what_has_no_step_follows_the_one_before_it() -> None:
    assert [*in_line(points([math.nan, math.nan, 7, math.inf]), 3).steps] == [3, 4, 7, 8]


@given(st.lists(STEPS, min_size=1, max_size=60))
def test_a_point_is_left_out_only_for_a_later_one(steps: list[float]) -> None:
    line = in_line(points(steps), 0)
    kept = [int(value) for value in line.values]
    assert [*line.steps] == sorted(line.steps)
    assert kept == sorted(kept)
    assert kept[-1] == len(steps) - 1
    assert in_line(line, 0) == line
    whole = [step for step in steps if math.isfinite(step)]
    if len(whole) == len(steps):
        for number in {*range(len(steps))} - {*kept}:
            assert any(step <= steps[number] for step in steps[number + 1 :])

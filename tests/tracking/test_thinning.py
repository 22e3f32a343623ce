"""Fewer points of a series: equal shares for a sparkline, extremes for a plot."""

from __future__ import annotations

import math
from array import array
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.tracking.series import extremes, means

NAN: Final = math.nan
VALUES: Final = st.lists(
    st.floats(-1e308, 1e308) | st.sampled_from([NAN, math.inf, -math.inf]), min_size=1, max_size=200
)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(NAN), min_size=1, max_size=100), st.integers(1, 30))
def test_means_are_of_equal_shares(values: list[float], most: int) -> None:
    thin = means(values, most)
    assert len(thin) == min(most, len(values))
    finite = [value for value in values if math.isfinite(value)]
    assert all(math.isnan(value) or min(finite) - 1e-6 <= value <= max(finite) + 1e-6 for value in thin)
    if len(values) <= most:
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(thin, values, strict=True))


@given(VALUES, st.integers(5, 60))
def test_extremes_stay(values: list[float], most: int) -> None:
    """The first, the last, the lowest, the highest, and that there is a gap."""
    places = extremes(array("d", values), most)
    assert places == sorted({*places})
    assert len(places) <= most
    assert (places[0], places[-1]) == (0, len(values) - 1)
    kept = [values[place] for place in places]
    finite = [value for value in values if math.isfinite(value)]
    kept_finite = [value for value in kept if math.isfinite(value)]
    assert (min(kept_finite, default=0), max(kept_finite, default=0)) == (
        min(finite, default=0),
        max(finite, default=0),
    )
    assert (len(finite) < len(values)) == (len(kept_finite) < len(kept))


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([0, 9, 1, 2, 3, 4, -5, 5, 6, 0], [0, 1, 2, 6, 8, 9]),  # two shares of four between first and last
        ([0, 1, NAN, 3, 1, 1, 1, 1, 1, 0], [0, 1, 2, 3, 5, 9]),
        ([1, 2, 3], [0, 1, 2]),
    ],
)
def test_the_lowest_and_the_highest_of_each_share(values: list[float], places: list[int]) -> None:
    assert extremes(array("d", values), 8) == places

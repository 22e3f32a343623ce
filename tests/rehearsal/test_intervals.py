"""How often to save."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hpcdist.rehearsal import observed
from hpcdist.rehearsal.observed import Mtbf


def test_an_interval_of_daly() -> None:
    """By hand: two minutes for a checkpoint, a failure a day."""
    first = math.sqrt(2 * 120 * 86400)
    assert math.isclose(
        observed.interval(120, 86400), first * (1 + 0.0263523 / 3 + 0.000694444 / 9) - 120, rel_tol=1e-6
    )


@given(st.floats(0.01, 1e4), st.floats(1, 1e8))
def test_it_is_near_that_of_young_where_failures_are_rare(write: float, mtbf: float) -> None:
    found = observed.interval(write, mtbf)
    assert found > 0
    if write < mtbf / 1000:
        assert math.isclose(found, math.sqrt(2 * write * mtbf), rel_tol=0.05)


def test_a_job_fails_with_each_of_its_nodes() -> None:
    assert Mtbf(6000, "x").of_job(100) == 60 * 3600
    assert observed.choose(None, None) == Mtbf(observed.DEFAULT_NODE_MTBF_HOURS, observed.SOURCE_OF_DEFAULT)
    assert round(observed.choose(None, None).node_hours) == 6335
    assert observed.choose(None, 9.0) == Mtbf(9.0, "the site file")
    assert observed.choose(5.0, 9.0) == Mtbf(5.0, "--mtbf")

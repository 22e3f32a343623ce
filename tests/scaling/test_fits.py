"""Fits of scalability laws: known parameters come back, and what does not fit any law is bounded."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.scaling import fits
from hpcdist.scaling.fits import LAWS, Fit, Point

SIZES = (1, 2, 4, 8, 16, 32)
SHARES = st.floats(0, 1)
SPEEDS = st.floats(1e-3, 1e9)


def fitted(law: str, points: list[Point]) -> Fit:
    found = fits.fit(law, points)
    assert found is not None
    return found


def measured(law: str, one_node: float, parameters: dict[str, float]) -> list[Point]:
    return [(n, one_node * LAWS[law].at(n, parameters)) for n in SIZES]


@pytest.mark.parametrize("law", ["Amdahl", "Gustafson"])
@given(one_node=SPEEDS, serial=SHARES)
def test_a_serial_share_is_found_again(law: str, one_node: float, serial: float) -> None:
    found = fitted(law, measured(law, one_node, {"serial": serial}))
    assert found.one_node == pytest.approx(one_node)
    assert found.parameters["serial"] == pytest.approx(serial, abs=1e-6)
    assert [nodes for nodes, _ in found.residuals] == [*SIZES]
    assert max(abs(each) for _, each in found.residuals) < 1e-6


@given(one_node=SPEEDS, contention=SHARES, coherency=st.floats(0, 0.1))
def test_contention_and_coherency_are_found_again(
    one_node: float, contention: float, coherency: float
) -> None:
    parameters = {"contention": contention, "coherency": coherency}
    found = fitted("universal", measured("universal", one_node, parameters))
    assert found.one_node == pytest.approx(one_node)
    assert found.parameters == pytest.approx(parameters, abs=1e-6)


def test_a_maximum_is_where_throughput_is_highest() -> None:
    found = fitted("universal", measured("universal", 100, {"contention": 0.02, "coherency": 0.0005}))
    assert found.peak == pytest.approx(math.sqrt(0.98 / 0.0005))
    assert found.peak
    assert fits.at(found, found.peak) > max(fits.at(found, found.peak * by) for by in (0.9, 1.1))
    assert fitted("universal", [(n, 100.0 * n) for n in SIZES]).peak is None


@given(st.lists(st.tuples(st.sampled_from(SIZES), SPEEDS), min_size=3), st.sampled_from([*LAWS]), SPEEDS)
def test_whatever_was_measured_no_parameter_is_below_zero_and_units_do_not_matter(
    points: list[Point], law: str, unit: float
) -> None:
    found, scaled = fits.fit(law, points), fits.fit(law, [(n, x * unit) for n, x in points])
    enough = len({n for n, _ in points}) >= len(LAWS[law].columns)
    if not enough:
        assert found is scaled is None
    if found and scaled:
        assert min(found.parameters.values()) >= 0
        assert [scaled.one_node, *scaled.parameters.values()] == pytest.approx(
            [found.one_node * unit, *found.parameters.values()], rel=1e-3, abs=1e-9
        )


def test_no_other_share_fits_noise_better() -> None:
    points = [(1, 101.0), (1, 99.0), (2, 190.0), (2, 198.0), (4, 350.0), (8, 610.0)]
    found = fitted("Amdahl", points)

    def error(one_node: float, serial: float) -> float:
        law = LAWS["Amdahl"].at
        return sum((one_node * law(n, {"serial": serial}) / x - 1) ** 2 for n, x in points)

    # The squares are of n / X, whose errors are those of X up to their own squares.
    least = error(found.one_node, found.parameters["serial"])
    around = [(a, b) for a in (0.97, 1.03) for b in (0.8, 1.2)]
    assert all(error(found.one_node * a, found.parameters["serial"] * b) > least for a, b in around)


def test_a_speed_up_above_the_ideal_is_no_negative_share() -> None:
    points = [(n, 100.0 * n**1.2) for n in SIZES]
    assert fitted("Amdahl", points).parameters == {"serial": 0.0}
    assert fitted("Gustafson", points).parameters == {"serial": 0.0}
    assert fitted("universal", points).parameters == {"contention": 0.0, "coherency": 0.0}


def test_as_many_sizes_as_parameters_fit_exactly() -> None:
    found = fitted("Amdahl", [(1, 100.0), (2, 160.0)])
    assert (found.law, found.is_exact, found.peak) == ("Amdahl", True, None)
    assert [found.one_node, *found.parameters.values()] == pytest.approx([100, 0.25])
    assert [each for _, each in found.residuals] == pytest.approx([0, 0], abs=1e-9)
    assert not fitted("Amdahl", [(1, 100.0), (2, 160.0), (4, 200.0)]).is_exact


@pytest.mark.parametrize("points", [[], [(1, 100.0)], [(1, 100.0), (1, 90.0)], [(1, 0.0), (2, math.nan)]])
def test_too_few_sizes_have_no_fit(points: list[Point]) -> None:
    assert [fits.fit(law, points) for law in LAWS] == [None, None, None]

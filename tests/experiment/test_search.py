"""The numbers of spaces, beside those that Polyaxon's own packages printed (hypertune 1.4.0, NumPy 2.4.6)."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpcdist.experiment.search import Choices, Distribution, Space, values_of, weights_of
from tests.wording import Wording

LISTED: list[tuple[str, tuple[float, ...], list[float]]] = [
    ("range", (0, 10, 3), [0.0, 3.0, 6.0, 9.0]),
    ("range", (0.1, 0.5, 0.1), [0.1, 0.2, 0.30000000000000004, 0.4]),
    ("range", (1, 2, 0.3), [1.0, 1.3, 1.6, 1.9000000000000001]),
    ("range", (16, 128, 16), [16.0, 32.0, 48.0, 64.0, 80.0, 96.0, 112.0]),
    ("range", (-1.0, 1, 0.25), [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75]),
    ("linspace", (0, 1, 5), [0.0, 0.25, 0.5, 0.75, 1.0]),
    ("linspace", (0.001, 0.1, 4), [0.001, 0.034, 0.067, 0.1]),
    ("linspace", (10, 100, 1), [10.0]),
    (
        "linspace",
        (0.01, 0.3, 7),
        [
            0.01,
            0.058333333333333334,
            0.10666666666666666,
            0.155,
            0.20333333333333334,
            0.25166666666666665,
            0.3,
        ],
    ),
    ("logspace", (-4, -1, 4), [0.0001, 0.001, 0.01, 0.1]),
    ("logspace", (0, 8, 9, 2), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]),
    (
        "logspace",
        (0.01, 0.1, 5),
        [1.023292992280754, 1.077705253694322, 1.135010815672315, 1.1953635256737185, 1.2589254117941673],
    ),
    ("geomspace", (1, 1000, 4), [1.0, 10.0, 100.0, 1000.0]),
    (
        "geomspace",
        (0.0001, 0.1, 7),
        [0.0001, 0.00031622776601683794, 0.001, 0.0031622776601683794, 0.01, 0.03162277660168379, 0.1],
    ),
    ("geomspace", (-100, -1, 3), [-100.0, -10.0, -1.0]),
]
DRAWN: list[tuple[str, tuple[float, ...], float, float]] = [
    ("uniform", (0.1, 0.9), 0.0, 0.1),
    ("uniform", (0.1, 0.9), 0.25, 0.30000000000000004),
    ("uniform", (0.1, 0.9), 0.7, 0.6599999999999999),
    ("quniform", (1, 10, 0.5), 0.0, 1.0),
    ("quniform", (1, 10, 0.5), 0.25, 3.0),
    ("quniform", (1, 10, 0.5), 0.7, 7.0),
    ("loguniform", (-5, 1), 0.0, 0.006737946999085467),
    ("loguniform", (-5, 1), 0.25, 0.0301973834223185),
    ("loguniform", (-5, 1), 0.7, 0.4493289641172213),
    ("qloguniform", (0, 5, 2), 0.0, 0.0),
    ("qloguniform", (0, 5, 2), 0.25, 2.0),
    ("qloguniform", (0, 5, 2), 0.7, 32.0),
    ("normal", (1, 2), 0.0, 1.0),
    ("normal", (1, 2), 0.25, 1.5),
    ("normal", (1, 2), 0.7, 2.4),
    ("normal", (1, 2), -0.6, -0.19999999999999996),
    ("qnormal", (0, 10, 3), 0.0, 0.0),
    ("qnormal", (0, 10, 3), 0.25, 0.0),
    ("qnormal", (0, 10, 3), 0.7, 6.0),
    ("qnormal", (0, 10, 3), -0.6, -6.0),
    ("lognormal", (0, 1), 0.0, 1.0),
    ("lognormal", (0, 1), 0.25, 1.2840254166877414),
    ("lognormal", (0, 1), 0.7, 2.0137527074704766),
    ("lognormal", (0, 1), -0.6, 0.5488116360940264),
    ("qlognormal", (2, 1, 0.5), 0.0, 7.0),
    ("qlognormal", (2, 1, 0.5), 0.25, 9.0),
    ("qlognormal", (2, 1, 0.5), 0.7, 14.5),
    ("qlognormal", (2, 1, 0.5), -0.6, 4.0),
]
"""The kind, its numbers, what the generator returned of the unit distribution, and the value."""


WIDE = some.one_of(
    some.floats(allow_nan=False, allow_infinity=False), some.integers(-5, 9), some.just(10**400)
)


class Fixed(Random):
    """A generator that returns one number of the unit distribution."""

    def __init__(self, unit: float) -> None:
        self.unit = unit

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.unit

    def normalvariate(self, mu: float = 0, sigma: float = 1) -> float:
        return mu + sigma * self.unit


def of_kind(kind: str, numbers: tuple[float, ...]) -> Space:
    """Return a space with one key."""
    key: dict[str, Any] = {kind: numbers}
    return Space(**key)


def values(space: Space) -> list[Any]:
    """Return all values of a discrete space."""
    made = values_of(space)
    assert isinstance(made, Choices)
    return [made.at(index) for index in range(made.size)]


@pytest.mark.parametrize(("kind", "numbers", "expected"), LISTED)
def test_ranges_have_the_values_of_polyaxon(
    kind: str, numbers: tuple[float, ...], expected: list[float]
) -> None:
    assert values(of_kind(kind, numbers)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("kind", "numbers", "unit", "expected"), DRAWN)
def test_distributions_have_the_values_of_polyaxon(
    kind: str, numbers: tuple[float, ...], unit: float, expected: float
) -> None:
    made = values_of(of_kind(kind, numbers))
    assert isinstance(made, Distribution)
    assert made.draw(Fixed(unit)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("space", "unit", "expected"),
    [
        (Space(quniform=(1, 10, 0.5)), 0.28, 3.5),
        (Space(quniform=(1, 10, 2)), 0.5, 6),
        (Space(quniform=(0, 1, 0.3)), 1.0, 0.8999999999999999),
        (Space(qloguniform=(0, 3, 2)), 0.5, 4),
        (Space(qnormal=(3, 0, 2)), 0.5, 4),
        (Space(qlognormal=(3, 0, 5)), 0.5, 20),
        (Space(qlognormal=(690, 0, 1e-9)), 0.5, math.exp(690)),
    ],
)
def test_the_nearest_multiple_is_that_of_azure_and_hyperopt(
    space: Space, unit: float, expected: float
) -> None:
    """Both document ``round(x / q) * q``."""
    made = values_of(msgspec.structs.replace(space, rounding="nearest"))
    assert isinstance(made, Distribution)
    assert repr(made.draw(Fixed(unit))) == repr(expected)


@pytest.mark.parametrize("unit", [0.0, 0.5, 1.0])
def test_a_number_beside_which_the_multiples_vanish_stays_as_it_is(unit: float) -> None:
    made = values_of(Space(quniform=(0, 1e308, 1e-300)))
    assert isinstance(made, Distribution)
    assert made.draw(Fixed(unit)) == unit * 1e308


@pytest.mark.parametrize("numbers", [(0, 10, 3), {"start": 0, "stop": 10, "step": 3}, "0:10:3"])
def test_a_range_of_whole_numbers_stays_whole_in_each_way_to_write_it(numbers: Any) -> None:
    assert [repr(value) for value in values(Space(range=numbers))] == ["0", "3", "6", "9"]


def test_a_list_has_values_of_any_kind() -> None:
    assert values(Space(values=("sgd", 1, [2, 3], None))) == ["sgd", 1, [2, 3], None]


def test_a_value_with_the_probability_0_is_none() -> None:
    space = Space(pvalues=(("a", 0.0), ("b", 0.1), ("c", 0.2), ("d", 0.7), ("e", 0.0)))
    found = values_of(space)
    assert isinstance(found, Choices)
    assert [found.at(index) for index in range(found.size)] == ["b", "c", "d"]
    assert weights_of(space) == (0.1, 0.2, 0.7)


def test_the_last_of_pvalues_has_what_is_left() -> None:
    space = Space(pvalues=(("a", 0.5), ("b", 0.2), ("c", 0.1)))
    assert values(space) == ["a", "b", "c"]
    assert weights_of(space) == pytest.approx((0.5, 0.2, 0.3))


@pytest.mark.parametrize("kind", ["uniform", "quniform", "normal", "lognormal"])
def test_draws_have_the_mean_of_their_distribution(kind: str) -> None:
    numbers = {"uniform": (2, 4), "quniform": (2, 4, 0.001), "normal": (3, 1), "lognormal": (0, 0.5)}
    made, random = values_of(of_kind(kind, numbers[kind])), Random(1)  # noqa: S311 - no secret
    assert isinstance(made, Distribution)
    drawn = [made.draw(random) for _ in range(20_000)]
    expected = math.exp(0.125) if kind == "lognormal" else 3
    assert math.fsum(drawn) / len(drawn) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    "keys",
    [
        {"uniform": (0, 1), "rounding": "nearest"},
        {},
        {"values": (1,), "range": (0, 1, 1)},
        {"values": ()},
        {"uniform": (3, 1)},
        {"range": (1, 1, 1)},
        {"range": (0, 1, 0)},
        {"range": (1e17, 2e17, 1)},
        {"linspace": (0, 1, 2.5)},
        {"linspace": (0, 1)},
        {"geomspace": (-1, 1, 3)},
        {"normal": (0, -1)},
        {"quniform": {"low": 0, "high": 1}},
        {"uniform": {"low": 0, "hihg": 1}},
        {"uniform": "0:x"},
        {"uniform": (0, math.inf)},
        pytest.param({"uniform": (0, 10**400)}, id="a number of 401 digits"),
        {"uniform": (-1.7e308, 1.7e308)},
        {"linspace": (-1.7e308, 1.7e308, 3)},
        {"geomspace": (1e-300, 1e300, 5)},
        {"range": (0, 1e308, 1e-300)},
        {"range": (1e308, 1.7e308, 1e308)},
        {"logspace": (-2000, 1, 3, 0.5)},
        {"normal": (1.7e308, 1e308)},
        {"loguniform": (0, 1000)},
        {"lognormal": (650, 6)},
        {"logspace": (0, 400, 3)},
        {"pvalues": (("a", 0.5, 1),)},
        {"pvalues": (("a", 0.7), ("b", 0.7))},
    ],
    ids=str,
)
def test_a_space_without_values_is_an_error_that_says_why(keys: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared whole
        values_of(Space(**keys))
    wording(str(error.value))


@given(
    some.sampled_from(sorted({kind for kind, *_ in (*LISTED, *DRAWN)})),
    some.lists(WIDE, min_size=3, max_size=4),
)
def test_any_numbers_are_refused_or_give_values_that_json_has(kind: str, numbers: list[float]) -> None:
    try:
        made = values_of(of_kind(kind, tuple(numbers)))
    except ValueError:
        return
    found = (
        [made.draw(Fixed(unit)) for unit in (0.0, 0.5, 1.0)]
        if isinstance(made, Distribution)
        else [made.at(index) for index in (0, made.size // 2, made.size - 1)]
    )
    json.dumps(found, allow_nan=False)

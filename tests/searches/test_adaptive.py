"""Bayesian optimization by the real Optuna: better than chance, and the same each time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpcdist.experiment.search import Bayes, Count, Distribution, Metric, Search, Space, values_of
from hpcdist.experiment.trials import TrialResult, trials
from hpcdist.searches import adaptive

MATRIX = {
    "lr": Space(loguniform=(math.log(1e-4), 0.0)),
    "width": Space(range=(8, 257, 8)),
    "opt": Space(values=("sgd", "adam", "lamb")),
    "noise": Space(normal=(0.0, 1.0)),
}
ALGORITHM = Bayes(8, 24, Metric("loss", "minimize"))


def loss(params: Mapping[str, Any]) -> float:
    """Return a loss that is least at 0.01, 128, adam and 0.5."""
    bad = {"sgd": 1.0, "adam": 0.0, "lamb": 2.0}[params["opt"]]
    rate, width = math.log10(params["lr"]) + 2, (params["width"] - 128) / 64
    return float(rate**2 + width**2 + bad + (params["noise"] - 0.5) ** 2)


def best(seed: int) -> float:
    search = Search(matrix=MATRIX, bo=ALGORITHM, seed=seed)
    found = [TrialResult(number, one, loss(one)) for number, one in enumerate(trials(search), 1)]
    while fresh := adaptive.propose(search, ALGORITHM, found, 4):
        found += [
            TrialResult(len(found) + at, one.params, loss(one.params)) for at, one in enumerate(fresh, 1)
        ]
    assert len(found) == 32
    return min(one.value or 0.0 for one in found)


def test_it_finds_better_params_than_as_many_random_ones() -> None:
    chance = [
        min(map(loss, trials(Search(matrix=MATRIX, random_search=Count(32), seed=seed)))) for seed in range(5)
    ]
    assert statistics.mean(map(best, range(5))) < statistics.mean(chance)


def test_a_call_that_is_repeated_returns_the_same_trials_of_values_that_are_there() -> None:
    search = Search(matrix=MATRIX, bo=ALGORITHM)
    reached = [TrialResult(number, one, loss(one)) for number, one in enumerate(trials(search), 1)]
    reached[0] = reached[0]._replace(value=None)
    found = adaptive.propose(search, ALGORITHM, reached, 5)
    assert found == adaptive.propose(search, ALGORITHM, reached, 5)
    assert all(one.params["width"] in range(8, 257, 8) and 1e-4 <= one.params["lr"] <= 1 for one in found)
    assert adaptive.propose(search, ALGORITHM, reached * 4, 5) == []


@pytest.mark.parametrize(
    ("matrix", "number"),
    [
        ({"a": Space(values=(1, 2)), "b": Space(values=("x", "y", None))}, 6),
        ({"a": Space(quniform=(0, 5, 1))}, 5),
        ({"a": Space(uniform=(3, 3))}, 1),
        ({"a": Space(range=(0, 1000, 1)), "b": Space(values=(1, 2))}, 14),
    ],
)
def test_no_trial_comes_twice_and_the_search_ends_when_all_were_tried(
    matrix: dict[str, Space], number: int
) -> None:
    algorithm = Bayes(1, 13, Metric("loss", "minimize"))
    search = Search(matrix=matrix, bo=algorithm)
    found = [TrialResult(1, dict(one), 1.0) for one in trials(search)]
    while fresh := adaptive.propose(search, algorithm, found, 4):
        found += [TrialResult(len(found) + at, one.params, 1.0) for at, one in enumerate(fresh, 1)]
    assert len(found) == len({repr(one.params) for one in found}) == number


def test_the_largest_seed_has_trials_too() -> None:
    search = Search(matrix=MATRIX, bo=ALGORITHM, seed=2**32 - 1)
    reached = [TrialResult(number, one, loss(one)) for number, one in enumerate(trials(search), 1)]
    assert len(adaptive.propose(search, ALGORITHM, reached, 2)) == 2


@pytest.mark.parametrize("name", ["lr", "width", "opt", "noise"])
@given(place=some.floats(0.01, 0.99))
def test_the_number_of_a_value_gives_it_again(name: str, place: float) -> None:
    space = values_of(MATRIX[name])
    if isinstance(space, Distribution):
        at = space.low + place * (space.high - space.low)
    else:
        at = int(place * space.size)
    value = adaptive._value(space, at)
    again = adaptive._value(space, adaptive._number(space, value))
    assert again == (pytest.approx(value) if isinstance(value, float) else value)

"""The trials of grids, random searches and lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpcdist.experiment.search.model import Count, Search, Space
from hpcdist.experiment.search.trials import MOST, trials
from tests.wording import Wording

SMALL = {"a": Space(values=(1, 2, 3)), "b": Space(range=(0, 2, 1)), "c": Space(values=("x",))}


def grid(n: int | None = None, **matrix: Space) -> Search:
    return Search(matrix=matrix, grid_search=Count(n))


def random(n: int | None, seed: int = 0, **matrix: Space) -> Search:
    return Search(matrix=matrix, random_search=Count(n), seed=seed)


def test_a_grid_is_the_product_whose_last_param_changes_fastest() -> None:
    both = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    expected = [{"a": a, "b": b, "c": "x"} for a, b in both]
    assert [*trials(Search(matrix=SMALL))] == expected
    assert [*trials(grid(4, **SMALL))] == expected[:4]
    assert [*trials(grid(100, **SMALL))] == expected


def test_a_list_of_trials_is_taken_as_it_stands() -> None:
    listed: tuple[dict[str, Any], ...] = ({"a": 1}, {"a": 1}, {"b": [2]})
    assert trials(Search(mapping=listed)) == listed


@given(some.integers(1, 8), some.integers())
def test_a_random_search_has_no_trial_twice_and_is_the_same_each_time(count: int, seed: int) -> None:
    found = [*trials(random(count, seed, **SMALL))]
    assert [*trials(random(count, seed, **SMALL))] == found
    assert len({repr(trial) for trial in found}) == len(found) == min(count, 6)


@given(some.integers(1, 50), some.integers(0, 5))
def test_a_longer_random_search_begins_with_the_shorter_one(count: int, seed: int) -> None:
    """`sweep advance --trials` asks for more of them."""
    matrix = {"a": Space(uniform=(0, 1)), "b": Space(pvalues=(("x", 0.9), ("y", 0.1)))}
    assert trials(random(60, seed, **matrix))[:count] == trials(random(count, seed, **matrix))


def test_another_seed_has_other_trials() -> None:
    found = [repr(trials(random(3, seed, a=Space(uniform=(0, 1))))) for seed in range(20)]
    assert len({*found}) == 20


@pytest.mark.parametrize("others", [{}, {"b": Space(uniform=(0, 1))}])
def test_probable_values_come_more_often(others: dict[str, Space]) -> None:
    space = Space(pvalues=(("often", 0.9), ("seldom", 0.1)))
    first = Counter(trials(random(1, seed, a=space, **others))[0]["a"] for seed in range(1000))
    assert first["often"] == pytest.approx(900, abs=60)


def test_a_random_search_over_too_many_combinations_to_list_draws_them() -> None:
    space = Space(range=(0, 10**9, 1))
    found = trials(random(100, a=space, b=space))
    assert len({repr(trial) for trial in found}) == 100
    assert all(isinstance(trial["a"], int) for trial in found)


@pytest.mark.parametrize(
    "search",
    [
        pytest.param(
            grid(a=Space(range=(0, 10**5, 1)), b=Space(range=(0, 10**4, 1))), id="too many trials of a grid"
        ),
        pytest.param(grid(a=Space(uniform=(0, 1))), id="a grid of a distribution"),
        pytest.param(grid(a=Space(pvalues=(("x", 0.5), ("y", 0.5)))), id="a grid of pvalues"),
        pytest.param(random(None, a=Space(values=(1,))), id="a random search without a number"),
        pytest.param(random(MOST + 1, a=Space(uniform=(0, 1))), id="too many random trials"),
        pytest.param(random(10, a=Space(quniform=(0, 3, 1))), id="fewer values than trials"),
    ],
)
def test_a_search_without_trials_says_why(search: Search, wording: Wording) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared whole
        trials(search)
    wording(str(error.value))

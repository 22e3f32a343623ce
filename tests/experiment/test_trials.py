"""The trials of a search: listed and random ones, and hyperband's generations."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpcdist.experiment.search import Bayes, Count, Hyperband, Metric, Resource, Search, Space
from hpcdist.experiment.trials import (
    MOST_TRIALS,
    NextTrial,
    TrialResult,
    brackets,
    generation_count,
    generation_of,
    generation_sizes,
    most_trials,
    next_generation,
    trials,
)
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
        pytest.param(random(MOST_TRIALS + 1, a=Space(uniform=(0, 1))), id="too many random trials"),
        pytest.param(random(10, a=Space(quniform=(0, 3, 1))), id="fewer values than trials"),
    ],
)
def test_a_search_without_trials_says_why(search: Search, wording: Wording) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared whole
        trials(search)
    wording(str(error.value))


BRACKETS: list[tuple[float, float, list[list[tuple[int, float]]]]] = [
    (
        81,
        3,
        [
            [(81, 1.0), (27, 3.0), (9, 9.0), (3, 27.0), (1, 81.0)],
            [(34, 3.0), (11, 9.0), (3, 27.0), (1, 81.0)],
            [(15, 9.0), (5, 27.0), (1, 81.0)],
            [(8, 27.0), (2, 81.0)],
            [(5, 81.0)],
        ],
    ),
    (10, 3, [[(9, 1.111111), (3, 3.333333), (1, 10.0)], [(5, 3.333333), (1, 10.0)], [(3, 10.0)]]),
    (
        27,
        2,
        [
            [(16, 1.6875), (8, 3.375), (4, 6.75), (2, 13.5), (1, 27.0)],
            [(10, 3.375), (5, 6.75), (2, 13.5), (1, 27.0)],
            [(7, 6.75), (3, 13.5), (1, 27.0)],
            [(5, 13.5), (2, 27.0)],
            [(5, 27.0)],
        ],
    ),
    (
        100,
        4,
        [
            [(64, 1.5625), (16, 6.25), (4, 25.0), (1, 100.0)],
            [(22, 6.25), (5, 25.0), (1, 100.0)],
            [(8, 25.0), (2, 100.0)],
            [(4, 100.0)],
        ],
    ),
    (1, 3, [[(1, 1.0)]]),
    (5, 3, [[(3, 1.666667), (1, 5.0)], [(2, 5.0)]]),
    (
        16,
        2.5,
        [
            [(16, 1.024), (6, 2.56), (2, 6.4), (1, 16.0)],
            [(9, 2.56), (3, 6.4), (1, 16.0)],
            [(5, 6.4), (2, 16.0)],
            [(4, 16.0)],
        ],
    ),
    (
        300,
        3,
        [
            [(243, 1.234568), (81, 3.703704), (27, 11.111111), (9, 33.333333), (3, 100.0), (1, 300.0)],
            [(98, 3.703704), (32, 11.111111), (10, 33.333333), (3, 100.0), (1, 300.0)],
            [(41, 11.111111), (13, 33.333333), (4, 100.0), (1, 300.0)],
            [(18, 33.333333), (6, 100.0), (2, 300.0)],
            [(9, 100.0), (3, 300.0)],
            [(6, 300.0)],
        ],
    ),
]


@pytest.mark.parametrize(("most", "eta", "expected"), BRACKETS)
def test_brackets_are_those_of_polyaxon(
    most: float, eta: float, expected: list[list[tuple[int, float]]]
) -> None:
    found = [[(one.trials, round(one.amount, 6)) for one in bracket] for bracket in brackets(most, eta)]
    assert found == expected


@pytest.mark.parametrize(("power", "eta"), [(5, 3), (3, 10), (10, 2), (4, 5)])
def test_an_exact_power_of_eta_has_all_its_brackets(power: int, eta: int) -> None:
    """Polyaxon has one bracket too few for 243 and 3: the quotient of two logarithms is 4.999."""
    found = brackets(eta**power, eta)
    assert (len(found), found[0][0].trials, found[0][0].amount) == (power + 1, eta**power, 1)


PAPER = Hyperband(81, Resource("epochs", "int"), Metric("loss", "minimize"))


def search(algorithm: Hyperband, seed: int = 0) -> Search:
    return Search(matrix={"lr": Space(uniform=(0, 1))}, hyperband=algorithm, seed=seed)


def generations(algorithm: Hyperband, seed: int = 0) -> list[list[TrialResult]]:
    """Run a whole search, in which the loss is the learning rate."""
    found: list[list[TrialResult]] = []
    fresh = [NextTrial(params) for params in trials(search(algorithm, seed))]
    so_far: list[TrialResult] = []
    while fresh:
        new = [TrialResult(len(so_far) + at, one.params, one.params["lr"]) for at, one in enumerate(fresh, 1)]
        so_far += new
        found.append(new)
        fresh = next_generation(algorithm, so_far)
    return found


def test_each_round_has_the_trials_and_the_epochs_of_the_paper() -> None:
    counts = [
        {epochs: sum(one.params["epochs"] == epochs for one in new) for epochs in (1, 3, 9, 27, 81)}
        for new in generations(PAPER)
    ]
    assert counts == [
        {1: 81, 3: 34, 9: 15, 27: 8, 81: 5},
        {1: 0, 3: 27, 9: 11, 27: 5, 81: 2},
        {1: 0, 3: 0, 9: 9, 27: 3, 81: 1},
        {1: 0, 3: 0, 9: 0, 27: 3, 81: 1},
        {1: 0, 3: 0, 9: 0, 27: 0, 81: 1},
    ]
    paper = search(PAPER)
    assert generation_count(paper) == 5
    assert most_trials(paper) == sum(sum(each.values()) for each in counts)
    there = [one.params for new in generations(PAPER) for one in new]
    assert [generation_of(paper, there[:count]) for count in (0, 143, 144, 188, 189, 206)] == [
        *(1, 1, 2, 2, 3, 5)
    ]


def test_bayesian_optimization_has_as_many_trials_in_each_generation_as_run_at_once() -> None:
    space = {"lr": Space(uniform=(0, 1))}
    bayes = Search(matrix=space, bo=Bayes(8, 7, Metric("loss")), concurrency=3)
    assert [*generation_sizes(bayes)] == [(8, 1), (3, 2), (1, 1)]
    assert (generation_count(bayes), most_trials(bayes)) == (4, 15)
    there = [{"lr": number} for number in range(15)]
    assert [generation_of(bayes, there[:count]) for count in (8, 11, 14, 15)] == [1, 2, 3, 4]
    assert generation_count(Search(matrix=space)) == 0


@given(some.integers(1, 30), some.sampled_from([2, 3, 4.5]), some.integers(0, 3))
def test_the_best_of_each_bracket_go_on_with_the_same_params(most: int, eta: float, seed: int) -> None:
    algorithm = Hyperband(most, Resource("epochs"), Metric("loss", "minimize"), eta)
    first, *later = generations(algorithm, seed)
    rates = {one.params["lr"] for one in first}
    for new in later:
        assert {one.params["lr"] for one in new} <= rates
        rates = {one.params["lr"] for one in new}
    assert min(first, key=lambda one: float(one.params["lr"])).params["lr"] in {
        one.params["lr"] for one in (first, *later)[-1] + first
    }


def test_a_trial_without_a_value_does_not_go_on_and_a_repeated_call_returns_the_same() -> None:
    algorithm = Hyperband(3, Resource("epochs", "int"), Metric("accuracy"))
    sampled = enumerate(trials(search(algorithm)), 1)
    first = [TrialResult(number, one, None if number < 3 else math.nan) for number, one in sampled]
    assert next_generation(algorithm, first) == []
    first[1] = first[1]._replace(value=0.5)
    expected = [NextTrial({**first[1].params, "epochs": 3}, 2)]
    assert next_generation(algorithm, first) == expected == next_generation(algorithm, first)
    assert next_generation(algorithm, [*first, TrialResult(6, expected[0].params, 0.6)]) == []


def test_brackets_that_have_too_few_trials_share_none() -> None:
    algorithm = Hyperband(9, PAPER.resource, PAPER.metric)
    few = Search(matrix={"lr": Space(values=(*range(10),))}, hyperband=algorithm)
    fresh = [NextTrial(params) for params in trials(few)]
    so_far: list[TrialResult] = []
    while fresh:
        so_far += [
            TrialResult(len(so_far) + at, one.params, one.params["lr"]) for at, one in enumerate(fresh, 1)
        ]
        fresh = next_generation(algorithm, so_far)
    assert len({(one.params["lr"], one.params["epochs"]) for one in so_far}) == len(so_far)

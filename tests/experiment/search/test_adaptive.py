"""Hyperband's trials, round by round, against the numbers of its paper (max 81, eta 3: table 1)."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as some

from hpcdist.experiment.search import adaptive
from hpcdist.experiment.search.adaptive import Next, Reached
from hpcdist.experiment.search.model import Bayes, Hyperband, Metric, Resource, Search, Space
from hpcdist.experiment.search.trials import trials

PAPER = Hyperband(81, Resource("epochs", "int"), Metric("loss", "minimize"))


def search(algorithm: Hyperband, seed: int = 0) -> Search:
    return Search(matrix={"lr": Space(uniform=(0, 1))}, hyperband=algorithm, seed=seed)


def generations(algorithm: Hyperband, seed: int = 0) -> list[list[Reached]]:
    """Run a whole search, in which the loss is the learning rate."""
    found: list[list[Reached]] = []
    fresh = [Next(params) for params in trials(search(algorithm, seed))]
    so_far: list[Reached] = []
    while fresh:
        new = [Reached(len(so_far) + at, one.params, one.params["lr"]) for at, one in enumerate(fresh, 1)]
        so_far += new
        found.append(new)
        fresh = adaptive.following(algorithm, so_far)
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
    assert adaptive.generations(paper) == 5
    assert adaptive.most_trials(paper) == sum(sum(each.values()) for each in counts)
    there = [one.params for new in generations(PAPER) for one in new]
    assert [adaptive.generation(paper, there[:count]) for count in (0, 143, 144, 188, 189, 206)] == [
        *(1, 1, 2, 2, 3, 5)
    ]


def test_bayesian_optimization_has_as_many_trials_in_each_generation_as_run_at_once() -> None:
    space = {"lr": Space(uniform=(0, 1))}
    bayes = Search(matrix=space, bo=Bayes(8, 7, Metric("loss")), concurrency=3)
    assert [*adaptive.sizes(bayes)] == [(8, 1), (3, 2), (1, 1)]
    assert (adaptive.generations(bayes), adaptive.most_trials(bayes)) == (4, 15)
    there = [{"lr": number} for number in range(15)]
    assert [adaptive.generation(bayes, there[:count]) for count in (8, 11, 14, 15)] == [1, 2, 3, 4]
    assert adaptive.generations(Search(matrix=space)) == 0


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
    first = [Reached(number, one, None if number < 3 else math.nan) for number, one in sampled]
    assert adaptive.following(algorithm, first) == []
    first[1] = first[1]._replace(value=0.5)
    expected = [Next({**first[1].params, "epochs": 3}, 2)]
    assert adaptive.following(algorithm, first) == expected == adaptive.following(algorithm, first)
    assert adaptive.following(algorithm, [*first, Reached(6, expected[0].params, 0.6)]) == []


def test_brackets_that_have_too_few_trials_share_none() -> None:
    algorithm = Hyperband(9, PAPER.resource, PAPER.metric)
    few = Search(matrix={"lr": Space(values=(*range(10),))}, hyperband=algorithm)
    fresh = [Next(params) for params in trials(few)]
    so_far: list[Reached] = []
    while fresh:
        so_far += [Reached(len(so_far) + at, one.params, one.params["lr"]) for at, one in enumerate(fresh, 1)]
        fresh = adaptive.following(algorithm, so_far)
    assert len({(one.params["lr"], one.params["epochs"]) for one in so_far}) == len(so_far)

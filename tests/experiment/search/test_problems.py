"""What keeps a search from having trials, with its place."""

from __future__ import annotations

from typing import Final

import pytest

from hpcdist.experiment.search.model import Bayes, Count, Hyperband, Metric, Resource, Search, Space
from hpcdist.experiment.search.problems import search_problems
from tests.wording import Wording

LIST = {"lr": Space(values=(0.1, 0.2))}
ANY = {"a": Space(uniform=(0, 1))}
RIGHT: Final = {
    "a matrix": Search(matrix=LIST),
    "a list": Search(mapping=({"lr": 0.1},)),
    "the largest seed": Search(matrix=LIST, seed=2**32 - 1),
    "a distribution under bo": Search(matrix=ANY, bo=Bayes(2, 3, Metric("loss"))),
}
WRONG: Final = {
    "nothing": Search(),
    "two algorithms": Search(matrix=LIST, grid_search=Count(), random_search=Count(2)),
    "a seed below 0": Search(matrix=LIST, seed=-1),
    "too large a seed": Search(matrix=LIST, seed=2**32),
    "a list with an algorithm": Search(mapping=({"lr": 1},), random_search=Count(2)),
    "numbers out of range": Search(matrix=LIST, concurrency=0, grid_search=Count(0)),
    "names and values": Search(matrix={"l r": Space(uniform=(2, 1)), "b": Space()}, random_search=Count(2)),
    "a grid of a distribution": Search(matrix=ANY),
    "hyperband with values of its resource": Search(
        matrix={"epochs": Space(values=(1,))},
        hyperband=Hyperband(0, Resource("epochs"), Metric("loss"), 1.0),
    ),
    "too much of a resource": Search(
        matrix=ANY, hyperband=Hyperband(10**400, Resource("epochs"), Metric("loss"), 3)
    ),
    "too many trials of hyperband": Search(
        matrix=ANY, hyperband=Hyperband(10**9, Resource("epochs"), Metric("loss"), 3)
    ),
    "hyperband over too few values": Search(
        matrix={"a": Space(quniform=(0, 2, 1))},
        hyperband=Hyperband(27, Resource("epochs"), Metric("loss"), 3),
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_searches_without_problems(case: str) -> None:
    assert [*search_problems(RIGHT[case], ("hptuning",))] == []


@pytest.mark.parametrize("case", WRONG)
def test_problems_have_their_place(case: str, wording: Wording) -> None:
    found = [*search_problems(WRONG[case], ("hptuning",))]
    assert {problem.severity for problem in found} == {"error"}
    wording(map(str, found))


def test_fewer_combinations_than_trials_are_a_warning(wording: Wording) -> None:
    [problem] = search_problems(Search(matrix=LIST, random_search=Count(3)), ("hptuning",))
    assert problem.severity == "warning"
    wording(str(problem))

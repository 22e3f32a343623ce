"""What keeps a search from having trials, with its place."""

from __future__ import annotations

import pytest

from hpcdist.errors import Problem
from hpcdist.experiment.search.model import Bayes, Count, Hyperband, Metric, Resource, Search, Space
from hpcdist.experiment.search.problems import search_problems

LIST = {"lr": Space(values=(0.1, 0.2))}
H = "hptuning"


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (Search(matrix=LIST), []),
        (Search(mapping=({"lr": 0.1},)), []),
        (
            Search(),
            [Problem("a search needs the values of its params", (H,), "write `matrix`, or `mapping`")],
        ),
        (
            Search(matrix=LIST, grid_search=Count(), random_search=Count(2)),
            [Problem("there is 'grid_search' already", (H, "random_search"), "keep one algorithm")],
        ),
        (
            Search(matrix=LIST, random_search=Count(3)),
            [
                Problem(
                    "there are 2 different trials, and not 3",
                    (H, "random_search", "n_experiments"),
                    severity="warning",
                )
            ],
        ),
        *(
            (
                Search(matrix=LIST, seed=seed),
                [Problem(f"{seed} is out of range", (H, "seed"), "write a number from 0 to 4294967295")],
            )
            for seed in (-1, 2**32)
        ),
        (Search(matrix=LIST, seed=2**32 - 1), []),
        (
            Search(mapping=({"lr": 1},), random_search=Count(2)),
            [Problem("a list of trials has no algorithm", (H, "random_search"), "remove it, or `mapping`")],
        ),
        (
            Search(matrix=LIST, concurrency=0, grid_search=Count(0)),
            [
                Problem("0 is out of range", (H, "concurrency"), "write 1 or more"),
                Problem("0 is out of range", (H, "grid_search", "n_experiments"), "write 1 or more"),
            ],
        ),
        (
            Search(matrix={"l r": Space(uniform=(2, 1)), "b": Space()}, random_search=Count(2)),
            [
                Problem(
                    "'l r' is not a name that templates can have",
                    (H, "matrix", "l r"),
                    "use letters, digits and _",
                ),
                Problem(
                    "low is 2 and high is 1; write a low that is less than high",
                    (H, "matrix", "l r", "uniform"),
                ),
                Problem(
                    "it has no values; write one of `values`, `range`, `linspace`, `uniform` and so on",
                    (H, "matrix", "b"),
                ),
            ],
        ),
        (
            Search(matrix={"a": Space(uniform=(0, 1))}),
            [Problem("'a' is a distribution, which a grid cannot list; write `random_search`", (H,))],
        ),
        (
            Search(matrix={"a": Space(uniform=(0, 1))}, bo=Bayes(2, 3, Metric("loss"))),
            [],
        ),
        (
            Search(
                matrix={"epochs": Space(values=(1,))},
                hyperband=Hyperband(0, Resource("epochs"), Metric("loss"), 1.0),
            ),
            [
                Problem(
                    "1 is out of range", (H, "hyperband", "eta"), "write a number from 1.1 to 1000, such as 3"
                ),
                Problem(
                    "the resource 'epochs' has values of its own", (H, "matrix", "epochs"), "remove them"
                ),
                Problem("0 is out of range", (H, "hyperband", "max_iterations"), "write 1 or more"),
            ],
        ),
        (
            Search(
                matrix={"a": Space(uniform=(0, 1))},
                hyperband=Hyperband(10**400, Resource("epochs"), Metric("loss"), 3),
            ),
            [
                Problem(
                    "1000000000 is the most of a resource",
                    (H, "hyperband", "max_iterations"),
                    "count it in larger units",
                )
            ],
        ),
        (
            Search(
                matrix={"a": Space(uniform=(0, 1))},
                hyperband=Hyperband(10**9, Resource("epochs"), Metric("loss"), 3),
            ),
            [
                Problem(
                    "it has 598326563 trials, and 100000 are the most; lower `max_iterations`",
                    (H,),
                )
            ],
        ),
        (
            Search(
                matrix={"a": Space(quniform=(0, 2, 1))},
                hyperband=Hyperband(27, Resource("epochs"), Metric("loss"), 3),
            ),
            [Problem("it has 2 different trials, not 49; give its params more values", (H,))],
        ),
    ],
)
def test_problems_have_their_place(search: Search, expected: list[Problem]) -> None:
    assert [*search_problems(search, (H,))] == expected

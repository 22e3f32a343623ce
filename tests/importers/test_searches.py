"""Searches over params, and the hint with the jobs to submit instead."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

import pytest

from hpcdist.importers.searches import Trials, as_options, from_list, grid, plain_values, submit_hint

ARRAY = "`, and let the command choose by the element's number"


def test_a_grid_combines_all_values() -> None:
    first = ({"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"})
    assert grid({"a": [1, 2], "b": ["x", "y"]}) == Trials(4, first)


def test_trials_may_be_listed() -> None:
    assert from_list([{"a": 1}, {"a": 2}]) == Trials(2, ({"a": 1}, {"a": 2}))


@pytest.mark.parametrize(
    ("node", "values"),
    [([1, None, "x"], [1, None, "x"]), ([[1]], []), ([{}], []), ("text", []), (None, []), ({"a": 1}, [])],
)
def test_nested_values_are_not_listed(node: object, values: list[object]) -> None:
    assert plain_values(node) == values


def test_params_are_options() -> None:
    assert as_options({"lr": 0.1, "name": "it's"}) == "-p lr=0.1 -p 'name=it'\"'\"'s'"


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ([1], "drop it, and submit once for each: `-p a=1`; or write `batch: {array: 0-0}"),
        ([1, 2, 3], "drop it, and submit once for each: `-p a=1`, `-p a=2`, `-p a=3`; or write `batch: {array: 0-2}"),
        ([1, 2, 3, 4], "drop it, and submit once for each: `-p a=1`, `-p a=2`, `-p a=3` and so on, 4 in all; or write `batch: {array: 0-3}"),
    ],
)  # fmt: skip
def test_the_hint_shows_the_first_jobs(values: list[int], hint: str) -> None:
    assert submit_hint(grid({"a": values}), "drop it") == hint + ARRAY

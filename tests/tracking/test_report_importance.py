"""How much params matter: by Optuna where it is installed, else by a measure that needs nothing."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from hpcdist.tracking import report_plots
from hpcdist.tracking.report_plots import epsilon_squared

CHANCE = random.Random(1)  # noqa: S311 - nothing secret
LR = [CHANCE.random() for _ in range(60)]
NOISE = [CHANCE.random() for _ in range(60)]
OPT = [CHANCE.choice(["sgd", "adam"]) for _ in range(60)]
LOSS = [(lr - 0.5) ** 2 + 0.08 * (opt == "sgd") for lr, opt in zip(LR, OPT, strict=True)]
PARAMS: dict[str, Any] = {"noise": NOISE, "opt": OPT, "lr": LR, "same": [1] * 60}


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("missing", ["", "sklearn", "optuna"])
def test_what_the_metric_depends_on_matters_most(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        without(missing, monkeypatch)
    found = report_plots.importance(PARAMS, LOSS)
    assert found is not None
    assert [*found.shares] == ["lr", "opt", "noise"]  # though no straight line shows how
    assert found.shares["lr"] > 0.5 > found.shares["opt"]
    assert all(0 <= share <= 1 for share in found.shares.values())
    assert found.measure.startswith("epsilon squared" if missing else "fANOVA by Optuna")


def test_epsilon_squared_is_that_of_the_books() -> None:
    values = [2.0, 4, 6, 10, 12, 14, 9, 11, 13]
    groups = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    # the means are 4, 12 and 11, and 9 of all: sums of squares of 24 within the groups and 138 in all
    assert epsilon_squared(groups, values) == pytest.approx(1 - (24 / 6) / (138 / 8))
    assert epsilon_squared(["a", "b"] * 4, [1.0, 1, 2, 2, 3, 3, 4, 4]) == 0
    assert epsilon_squared([*"abcd"], [1.0, 2, 3, 4]) == 0  # a group each explains nothing


def test_numbers_of_many_values_are_four_groups() -> None:
    column = [float(number) for number in range(12)]
    assert epsilon_squared(column, [0.0] * 3 + [1] * 3 + [2] * 3 + [3] * 3) == 1


@pytest.mark.parametrize(
    ("params", "values"),
    [
        ({"a": [1, 2, 3]}, [1, 2, 3]),
        ({"a": [1, 2, 3, 4]}, [1] * 4),
        ({"a": [1] * 5}, [1, 2, 3, 4, 5]),
        ({}, []),
    ],
)
def test_of_too_little_nothing_is_said(params: dict[str, Any], values: list[float]) -> None:
    assert report_plots.importance(params, values) is None


def test_values_of_any_kind_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    odd: list[Any] = [10**400, "x", [1], None, True, 1.5]
    for missing in ("", "optuna"):
        if missing:
            without(missing, monkeypatch)
        found = report_plots.importance({"odd": odd * 2}, [1.0, 2, 3, 4, 5, 6] * 2)
        assert found is not None
        assert found.shares["odd"] == pytest.approx(1)

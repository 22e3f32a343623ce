"""Expressions that find metrics in the output are checked before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.experiment.tracking import Tracking, tracking_problems
from tests.wording import Wording


@pytest.mark.parametrize(
    "keys", [{}, {"metrics": {"loss": r"loss[ =](\S+)"}, "step": r"(?:epoch|step) (\d+)"}]
)
def test_expressions_with_one_group(keys: dict[str, Any]) -> None:
    assert [*tracking_problems(Tracking(**keys), ("t",))] == []


@pytest.mark.parametrize(
    "keys",
    [{"metrics": {"a": "a", "b": "(b)(c)"}}, {"metrics": {"a": "[("}, "step": "*"}, {"step": "(a)"}],
    ids=str,
)
def test_problems(keys: dict[str, Any], wording: Wording) -> None:
    found = [*tracking_problems(Tracking(**keys), ("t",))]
    assert {problem.severity for problem in found} == {"error"}
    wording(map(str, found))

"""Expressions that find metrics in the output are checked before anything runs."""

from __future__ import annotations

import pytest

from hpcdist.errors import Problem
from hpcdist.experiment.tracking import Tracking, tracking_problems

HINT = "put the number into one pair of parentheses, and write `(?:...)` for any other"


@pytest.mark.parametrize(
    ("tracking", "problems"),
    [
        (Tracking(), []),
        (Tracking(metrics={"loss": r"loss[ =](\S+)"}, step=r"(?:epoch|step) (\d+)"), []),
        (
            Tracking(metrics={"a": "a", "b": "(b)(c)"}),
            [
                Problem("'a' has 0 groups", ("t", "metrics", "a"), HINT),
                Problem("'(b)(c)' has 2 groups", ("t", "metrics", "b"), HINT),
            ],
        ),
        (
            Tracking(metrics={"a": "[("}, step="*"),
            [
                Problem(
                    "'[(' is not a regular expression of Python: unterminated character set at position 0",
                    ("t", "metrics", "a"),
                ),
                Problem(
                    "'*' is not a regular expression of Python: nothing to repeat at position 0",
                    ("t", "step"),
                ),
            ],
        ),
        (Tracking(step="(a)"), [Problem("'step' has no effect without 'metrics'", ("t",))]),
    ],
)
def test_problems(tracking: Tracking, problems: list[Problem]) -> None:
    assert [*tracking_problems(tracking, ("t",))] == problems

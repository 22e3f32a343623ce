"""What is wrong with a policy by which running trials end early."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of
from tests.wording import Wording


def problems(tracking: dict[str, Any] | None = None, **policy: Any) -> list[str]:
    search = {
        "matrix": {"lr": {"values": [1, 2]}},
        "early_stopping": [{"metric": "loss", "policy": policy}],
    }
    data = {"run": {"cmd": "x {{ lr }}"}, "hptuning": search, "tracking": tracking or {}}
    built, found = fields.build(Experiment, data)
    return [str(problem) for problem in (problems_of(built) if built else found)]


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "median"},
        {"kind": "average", "evaluation_interval": 5, "min_interval": 10, "min_samples": 1},
        {"kind": "truncation", "percent": 20},
        {"kind": "difference", "percent": 150.5},
        {"kind": "difference", "amount": 0},
    ],
)
def test_what_policies_have(policy: dict[str, Any]) -> None:
    assert problems(**policy) == []


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "median", "percent": 20},
        {"kind": "truncation"},
        {"kind": "difference"},
        {"kind": "difference", "percent": 1, "amount": 1},
        {"kind": "truncation", "percent": 100},
        {"kind": "difference", "amount": -1},
        {"kind": "median", "evaluation_interval": 0},
        {"kind": "median", "min_samples": 0},
    ],
    ids=str,
)
def test_what_would_end_no_trial_or_all_of_them(policy: dict[str, Any], wording: Wording) -> None:
    wording(problems(**policy))


def test_a_metric_in_the_output_ends_no_trial(wording: Wording) -> None:
    wording(problems({"metrics": {"loss": r"loss (\S+)"}}, kind="median"))

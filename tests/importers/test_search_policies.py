"""Policies by which running trials end early, as other forms have them."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from tests.importers.test_katib import written
from tests.importers.test_polyaxon_v1_matrix import read
from tests.wording import Wording

AZURE = """
type: sweep
trial: {command: 'x ${{search_space.a}}', environment: {image: i}}
sampling_algorithm: bayesian
search_space: {a: {type: uniform, min_value: 0, max_value: 1}}
objective: {goal: minimize, primary_metric: loss}
limits: {max_total_trials: 30}
early_termination: """


def of_azure(policy: str) -> tuple[object, list[str]]:
    done = importers.read(source.parse(AZURE + policy, "f.yml").data)
    return done.data["hptuning"].get("early_stopping"), [
        str(one) for one in done.remarks if "early" in str(one)
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "{type: bandit, slack_factor: 0.25, evaluation_interval: 2, delay_evaluation: 5}",
            {"kind": "difference", "evaluation_interval": 2, "min_interval": 5, "percent": 25.0},
        ),
        (
            "{type: bandit, slack_amount: 0.1}",
            {"kind": "difference", "evaluation_interval": 1, "min_interval": 0, "amount": 0.1},
        ),
        (
            "{type: median_stopping, delay_evaluation: 5}",
            {"kind": "average", "evaluation_interval": 1, "min_interval": 5},
        ),
        (
            "{type: truncation_selection, truncation_percentage: 20}",
            {"kind": "truncation", "evaluation_interval": 1, "min_interval": 0, "percent": 20},
        ),
    ],
)
def test_those_of_azure(policy: str, expected: dict[str, Any]) -> None:
    stop = {"metric": "loss", "optimization": "minimize", "policy": expected | {"min_samples": 1}}
    assert of_azure(policy) == ([stop], [])


@pytest.mark.parametrize(
    "policy",
    [
        "{type: best}",
        "{type: bandit}",
    ],
)
def test_what_azure_has_not_ends_nothing(policy: str, wording: Wording) -> None:
    found, remarks = of_azure(policy)
    assert found is None
    wording(remarks)


def test_that_of_katib_compares_with_means_beside_the_goal() -> None:
    settings = "[{name: min_trials_required, value: '5'}, {name: start_step, value: '2'}]"
    text = f"maxTrialCount: 3\n  earlyStopping: {{algorithmName: medianstop, algorithmSettings: {settings}}}"
    done = importers.read(source.parse(written().replace("maxTrialCount: 3", text), "f.yml").data)
    policy = {"kind": "average", "min_interval": 2, "min_samples": 5}
    stop = {"metric": "Validation-accuracy", "optimization": "maximize", "policy": policy}
    assert done.data["hptuning"]["early_stopping"][-1] == stop


def test_those_of_polyaxon() -> None:
    policies = {
        "{kind: median, evaluationInterval: 2, minInterval: 4, minSamples: 5}": {
            "kind": "median",
            "evaluation_interval": 2,
            "min_interval": 4,
            "min_samples": 5,
        },
        "{kind: diff, percent: 30, evaluationInterval: 1}": {
            "kind": "difference",
            "evaluation_interval": 1,
            "percent": 30,
        },
    }
    for text, expected in policies.items():
        stop = f"{{kind: metric_early_stopping, metric: a, optimization: minimize, policy: {text}}}"
        data, remarks = read(f"matrix: {{kind: mapping, values: [{{lr: 1}}], earlyStopping: [{stop}]}}")
        assert (data["hptuning"]["early_stopping"], remarks) == (
            [{"metric": "a", "optimization": "minimize", "policy": expected}],
            [],
        )

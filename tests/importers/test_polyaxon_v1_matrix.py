# ruff: noqa: E501 - a file is written as one line
"""Searches of Polyaxon 1 and 2 become the section that those of 0.x have."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from tests.importers.remarks import cases
from tests.wording import Wording

RUN = "component: {run: {kind: job, container: {command: [x, '{{ lr }}']}}}"


def read(matrix: str, run: str = RUN) -> tuple[Any, list[str]]:
    document = source.parse(f"version: 1.1\nkind: operation\n{matrix}\n{run}", "f.yml")
    imported = importers.read(document.data)
    return imported.data, [f"{problem.severity}: {document.locate(problem)}" for problem in imported.remarks]


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (
            "matrix: {kind: grid, concurrency: 2, numRuns: 3, params: {lr: {kind: choice, value: [1, 2]}}, earlyStopping: []}",
            {"concurrency": 2, "grid_search": {"n_experiments": 3}, "matrix": {"lr": {"values": [1, 2]}}},
        ),
        (
            "parallel: {kind: grid, params: {lr: {kind: linspace, value: '0:1:5'}}}",
            {"grid_search": {}, "matrix": {"lr": {"linspace": "0:1:5"}}},
        ),
        (
            "matrix: {kind: random, numRuns: 5, seed: 3, params: {lr: {kind: uniform, value: {low: 0, high: 1}}, n: {kind: pchoice, value: [[3, 0.5], [4, 0.5]]}}}",
            {
                "seed": 3,
                "random_search": {"n_experiments": 5},
                "matrix": {
                    "lr": {"uniform": {"low": 0, "high": 1}},
                    "n": {"pvalues": [[3, 0.5], [4, 0.5]]},
                },
            },
        ),
        (
            "matrix: {kind: mapping, values: [{lr: 1, b: x}, {lr: 2, b: y z}]}",
            {"mapping": [{"lr": 1, "b": "x"}, {"lr": 2, "b": "y z"}]},
        ),
        (
            "matrix: {kind: hyperband, maxIterations: 9, eta: 3, resource: {name: n, type: int}, metric: {name: loss, optimization: minimize}, resume: true, params: {lr: {kind: uniform, value: '0:1'}}}",
            {
                "hyperband": {
                    "max_iterations": 9,
                    "eta": 3,
                    "resource": {"name": "n", "type": "int"},
                    "metric": {"name": "loss", "optimization": "minimize"},
                    "resume": True,
                },
                "matrix": {"lr": {"uniform": "0:1"}},
            },
        ),
        (
            "matrix: {kind: bayes, numInitialRuns: 3, maxIterations: 4, metric: {name: a}, utilityFunction: {kappa: 2}, params: {lr: {kind: range, value: [1, 9, 2]}}}",
            {
                "bo": {
                    "n_initial_trials": 3,
                    "n_iterations": 4,
                    "metric": {"name": "a"},
                    "utility_function": {"kappa": 2},
                },
                "matrix": {"lr": {"range": [1, 9, 2]}},
            },
        ),
    ],
)
def test_a_search_is_one_section(matrix: str, expected: object) -> None:
    data, remarks = read(matrix)
    assert (data["hptuning"], remarks) == (expected, [])


@pytest.mark.parametrize(
    ("rest", "expected", "remark"),
    [
        (
            "algorithm: tpe, numRuns: 20, maxIterations: 2, seed: 3",
            {"seed": 3, "bo": {"n_initial_trials": 20, "n_iterations": 20, "metric": {"name": "loss"}}},
            "Optuna's TPE chooses the trials, and not Hyperopt's tpe; the first 20 are random ones",
        ),
        (
            "algorithm: anneal, numRuns: 5, maxIterations: 3, tuner: {hubRef: hyperopt-tuner}",
            {"bo": {"n_initial_trials": 5, "n_iterations": 10, "metric": {"name": "loss"}}},
            "Optuna's TPE chooses the trials, and not Hyperopt's anneal; the first 5 are random ones",
        ),
        (
            "algorithm: tpe, numRuns: 8",
            {"metric": {"name": "loss"}, "random_search": {"n_experiments": 8}},
            "all 8 trials are random ones, since the first 20 of such a search are",
        ),
        (
            "algorithm: rand, numRuns: 8",
            {"metric": {"name": "loss"}, "random_search": {"n_experiments": 8}},
            "",
        ),
    ],
)
def test_hyperopt_becomes_bayesian_optimization_or_a_random_search(
    rest: str, expected: dict[str, object], remark: str
) -> None:
    params = "params: {lr: {kind: uniform, value: '0:1'}}"
    data, remarks = read(f"matrix: {{kind: hyperopt, metric: {{name: loss}}, {rest}, {params}}}")
    assert data["hptuning"] == {"matrix": {"lr": {"uniform": "0:1"}}, **expected}
    told = [one for one in remarks if "matrix.tuner" not in one]
    assert told == ([f"warning: f.yml:3:59: matrix.algorithm: {remark}"] if remark else [])


def test_a_value_of_a_metric_ends_the_search() -> None:
    stop = "{kind: metric_early_stopping, metric: a, value: 0.9, optimization: maximize}"
    data, remarks = read(f"matrix: {{kind: mapping, values: [{{lr: 1}}], earlyStopping: [{stop}]}}")
    assert remarks == []
    assert data["hptuning"] == {
        "mapping": [{"lr": 1}],
        "early_stopping": [{"metric": "a", "value": 0.9, "optimization": "maximize"}],
    }


@pytest.mark.parametrize(
    ("value", "command"),
    [
        ("[1, 2.5]", "x {{ lr }}"),
        ("[sgd, a b]", "x '{{ (lr)|replace(\"'\", \"'\\\\''\") }}'"),
    ],
)
def test_values_that_are_no_numbers_are_quoted(value: str, command: str) -> None:
    data, _ = read(f"matrix: {{kind: grid, params: {{lr: {{kind: choice, value: {value}}}}}}}")
    assert data["run"]["cmd"] == command


def test_inputs_of_the_component_have_the_params_of_the_search_beside_them() -> None:
    run = "component: {inputs: [{name: n, type: int, value: 3}], run: {kind: job, container: {command: [x, '{{ lr }}']}}}"
    data, remarks = read("matrix: {kind: mapping, values: [{lr: 1}]}", run)
    declared = [
        {"name": "n", "type": "int", "default": 3, "is_optional": True},
        {"name": "lr", "is_optional": True},
    ]
    assert (data["inputs"], remarks) == (declared, [])


@pytest.mark.parametrize(
    "matrix",
    [
        "matrix: {kind: iterative, maxIterations: 3, tuner: {hubRef: x}}",
        "matrix: {kind: grid, params: {lr: {kind: daterange, value: ['2020-01-01', '2020-02-01', 1]}}}",
        "matrix: {kind: bayesian, params: {lr: {kind: choice, value: [1]}}}",
        "matrix: {kind: hyperopt, algorithm: rand, numRuns: 0, params: {lr: {kind: choice, value: [1]}}}",
        "matrix: {kind: hyperopt, numRuns: 2, params: {lr: {kind: choice, value: [1]}}}",
        "matrix: {kind: hyperopt, algorithm: tpe, numRuns: 2, params: {lr: {kind: choice, value: [1]}}}",
        "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: [{kind: metric_early_stopping, metric: a}]}",
        "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: [{kind: x}]}",
        "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: 7}",
        "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: [{kind: metric_early_stopping, metric: a, value: 1, policy: {kind: median}}]}",
        "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: [{kind: metric_early_stopping, metric: a, policy: {kind: x}}]}",
        "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: [{kind: failure_early_stopping, percent: 50}]}",
        "matrix: {kind: mapping, values: [{lr: 1}], nope: 1}",
    ],
    ids=cases(),
)
def test_what_is_not_run_is_said(matrix: str, wording: Wording) -> None:
    _, remarks = read(matrix)
    wording(remarks)

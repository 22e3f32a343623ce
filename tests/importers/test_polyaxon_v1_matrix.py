# ruff: noqa: E501 - a file is written as one line
"""Searches of Polyaxon 1 and 2 become the section that those of 0.x have."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.documents import source

RUN = "component: {run: {kind: job, container: {command: [x, '{{ lr }}']}}}"


def read(matrix: str, run: str = RUN) -> tuple[Any, list[str]]:
    document = source.parse(f"version: 1.1\nkind: operation\n{matrix}\n{run}", "f.yml")
    imported = importers.read(document.data)
    return imported.data, [f"{problem.severity}: {document.locate(problem)}" for problem in imported.remarks]


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (
            "matrix: {kind: grid, concurrency: 2, numRuns: 3, params: {lr: {kind: choice, value: [1, 2]}}}",
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
    ("matrix", "remark"),
    [
        (
            "matrix: {kind: iterative, maxIterations: 3, tuner: {hubRef: x}}",
            "error: f.yml:3:16: matrix.kind: searches of the kind 'iterative' are not run; write one of grid, random, mapping, hyperband, bayes",
        ),
        (
            "matrix: {kind: grid, params: {lr: {kind: daterange, value: ['2020-01-01', '2020-02-01', 1]}}}",
            "error: f.yml:3:42: matrix.params.lr.kind: values of the kind 'daterange' are not searched; write `kind: choice`",
        ),
        (
            "matrix: {kind: mapping, values: [{lr: 1}], earlyStopping: [{kind: metric_early_stopping, metric: a, value: 1}]}",
            "warning: f.yml:3:44: matrix.earlyStopping: earlyStopping has no effect on a batch machine: no trial is stopped early yet, and all of them run",
        ),
        (
            "matrix: {kind: mapping, values: [{lr: 1}], nope: 1}",
            "error: f.yml:3:44: matrix.nope: unknown key 'matrix.nope'; remove it",
        ),
    ],
)
def test_what_is_not_run_is_said(matrix: str, remark: str) -> None:
    _, remarks = read(matrix)
    assert remarks == [remark]

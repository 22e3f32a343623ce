# ruff: noqa: E501 - a message is compared as one line
"""Hyper-parameters of MLRun are searches, with the trials that its own generators printed (mlrun 1.12.1)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.experiment.search.model import EarlyStopping
from hpcdist.loading.load import load_experiment
from hpcdist.loading.named_files import with_named_file

from .remarks import remarks_of

FUNCTION = "kind: mpijob\nmetadata: {name: t}\nspec:\n  command: train.py\n  replicas: 2\n"
TRIALS: list[tuple[str, list[dict[str, Any]]]] = [
    (
        "hyperparams: {a: [1, 2], b: [x, y, z]}",
        [{"a": a, "b": b} for b in ("x", "y", "z") for a in (1, 2)],
    ),
    (
        "hyperparams: {a: [1, 2], b: [3], c: [true, false]}\n  strategy: grid",
        [{"a": a, "b": 3, "c": c} for c in (True, False) for a in (1, 2)],
    ),
    (
        "hyperparams: {a: [1, 2], b: [x, y]}\n  hyper_param_options: {strategy: list}",
        [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    ),
    (
        "hyperparams: {a: [1, 2], b: x}\n  hyper_param_options: {strategy: list}",
        [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}],
    ),
    (
        "hyperparams: {a: [1, 2], b: [0.5, 1.5]}\n  hyper_param_options: {strategy: list}",
        [{"a": 1.0, "b": 0.5}, {"a": 2.0, "b": 1.5}],
    ),
    ("param_file: p.csv", [{"lr": 0.1, "opt": "sgd"}, {"lr": 0.01, "opt": "adam"}]),
    (
        "hyper_param_options: {param_file: p.json}",
        [{"lr": lr, "n": n} for n in (1, 2, 3) for lr in (0.1, 0.2)],
    ),
]
"""What ``get_generator`` made of these, of ``generators.py`` itself."""


@pytest.fixture
def files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("p.csv").write_text("lr,opt\n0.1,sgd\n1e-2,adam\n")
    pathlib.Path("p.json").write_text('{"lr": [0.1, 0.2], "n": [1, 2, 3]}')


def trials_of(rest: str) -> list[dict[str, Any]]:
    """Return what the program of each trial reads by ``get_or_create_ctx``."""
    document = with_named_file(source.parse(f"{FUNCTION}  parameters: {{p: 7}}\n  {rest}\n", "f.yml"))
    done = load_experiment(document)
    return [json.loads(one.variables["MLRUN_EXEC_CONFIG"])["spec"]["parameters"] for one in done.trials]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("rest", "expected"), TRIALS)
def test_the_trials_are_those_of_mlrun_in_its_order(rest: str, expected: list[dict[str, Any]]) -> None:
    assert trials_of(rest) == [{"p": 7, **trial} for trial in expected]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("rest", "number"),
    [
        ("hyperparams: {a: [1, 2], b: [x, y]}\n  strategy: random", 10),
        ("hyperparams: {a: [1, 2]}\n  hyper_param_options: {strategy: random, max_iterations: 3}", 3),
        ("hyper_param_options: {strategy: random, param_file: p.json}", 10),
    ],
)
def test_random_trials_are_drawn_as_often_as_by_mlrun(rest: str, number: int) -> None:
    found = trials_of(rest)
    assert len(found) == number
    assert found == trials_of(rest)


def test_the_selector_is_the_metric_and_parallel_runs_are_at_once() -> None:
    rest = "hyperparams: {lr: [1, 2]}\n  args: ['--lr={lr}']\n  hyper_param_options: {selector: min.loss, parallel_runs: 4, stop_condition: loss < 1, max_errors: 2}\n"
    done = load_experiment(source.parse(f"{FUNCTION}  {rest}", "f.yml"))
    search = done.experiment.hptuning
    assert search is not None
    assert (search.order, search.concurrency, search.grid_search is not None) == ("loss", 4, True)
    assert [trial.command for trial in done.trials] == [
        "python -u train.py --lr=1",
        "python -u train.py --lr=2",
    ]
    assert search.early_stopping == (EarlyStopping("loss", 1.0, "minimize"),)
    assert search.max_failures == 3
    assert [str(one) for one in done.problems if "hyper_param_options" in str(one)] == []


def test_a_handler_gets_the_params_of_each_trial() -> None:
    code = "ZGVmIHRyYWluKGNvbnRleHQsIGxyLCBuPTEpOiBwYXNzCg=="  # def train(context, lr, n=1): pass
    text = f"kind: job\nmetadata: {{name: t}}\nspec:\n  build: {{functionSourceCode: {code}}}\n  hyperparams: {{lr: [0.1, 0.2]}}\n"
    done = load_experiment(source.parse(text, "f.yml"))
    assert [json.loads(one.variables["POLYAXON_PARAMS"]) for one in done.trials] == [{"lr": 0.1}, {"lr": 0.2}]


@pytest.mark.parametrize(
    ("rest", "remark"),
    [
        ("hyperparams: {a: [1]}\n  hyper_param_options: {stop_condition: a > 1 and b < 2}", "warning: f.yml:7:41: spec.hyper_param_options.stop_condition: stop_condition has no effect on a batch machine: only one result compared with a number ends a search: `accuracy >= 0.9`"),
        ("hyperparams: {a: [1]}\n  hyper_param_options: {max_errors: few}", "error: f.yml:7:37: spec.hyper_param_options.max_errors: 'few' is no number of trials; write a number"),
        ("hyperparams: {a: [1, 2], b: [1]}\n  strategy: list", "error: f.yml:6:28: spec.hyperparams.b: it has 1 values, and another parameter has 2; in a list of trials, write as many of each"),
        ("hyperparams: {a: 1}", "error: f.yml:6:20: spec.hyperparams.a: its values are missing; write a list"),
        ("hyperparams: {a b: [1]}", "error: f.yml:6:17: spec.hyperparams.a b: 'a b' is not a valid param name"),
        ("hyperparams: [1]", "error: f.yml:6:3: spec.hyperparams: expected keys and values; write `NAME: [VALUE, ...]`"),
        ("hyperparams: {a: [1]}\n  strategy: custom", "error: f.yml:7:13: spec.strategy: with the strategy 'custom' the function makes its own runs, which a batch job does not; write grid, list or random"),
        ("hyperparams: {a: [1]}\n  strategy: bayes", "error: f.yml:7:13: spec.strategy: unknown strategy 'bayes'; write grid, list or random"),
        ("hyperparams: {a: [1]}\n  hyper_param_options: {max_iterations: 3}", "error: f.yml:7:41: spec.hyper_param_options.max_iterations: max_iterations is of the strategy random; write `strategy: random`, or remove it"),
        ("hyperparams: {a: [1]}\n  hyper_param_options: {strategy: random, max_iterations: -3}", "error: f.yml:7:59: spec.hyper_param_options.max_iterations: -3 is no number of trials; write a number from 1 to 100000"),
        ("hyperparams: {a: [1]}\n  param_file: p.csv", "error: f.yml:7:15: spec.param_file: there are `hyperparams` too; keep one of them"),
        ("param_file: s3://b/p.csv", "error: f.yml:6:15: spec.param_file: s3://b/p.csv is not read here; write its values as `hyperparams`, or copy it beside this file and give that name"),
        ("selector: max.x", "warning: f.yml:6:13: spec.selector: selector has no effect on a batch machine: there are no `hyperparams`"),
    ],
)  # fmt: skip
def test_what_has_no_trials_is_refused_in_mlruns_words(rest: str, remark: str) -> None:
    assert remark in remarks_of(f"{FUNCTION}  {rest}\n")


@pytest.mark.usefixtures("files")
def test_a_table_is_a_list() -> None:
    text = f"{FUNCTION}  param_file: p.csv\n  strategy: grid\n"
    document = with_named_file(source.parse(text, "f.yml"))
    assert (
        "strategy: a table in CSV is a list of trials; write `strategy: list`, or the lists as JSON"
        in str(importers.read(document.data).remarks[0])
    )

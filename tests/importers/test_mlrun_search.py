# ruff: noqa: E501 - a file is written as one line
"""Hyper-parameters of MLRun are searches, with the trials that its own generators printed (mlrun 1.12.1)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.experiment.search import EarlyStopping
from hpcdist.loading.load import load_experiment
from hpcdist.loading.named_files import with_named_file
from tests.wording import Wording

from .remarks import cases, remarks_of

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
    "rest",
    [
        "hyperparams: {a: [1]}\n  hyper_param_options: {stop_condition: a > 1 and b < 2}",
        "hyperparams: {a: [1]}\n  hyper_param_options: {max_errors: few}",
        "hyperparams: {a: [1, 2], b: [1]}\n  strategy: list",
        "hyperparams: {a: 1}",
        "hyperparams: {a b: [1]}",
        "hyperparams: [1]",
        "hyperparams: {a: [1]}\n  strategy: custom",
        "hyperparams: {a: [1]}\n  strategy: bayes",
        "hyperparams: {a: [1]}\n  hyper_param_options: {max_iterations: 3}",
        "hyperparams: {a: [1]}\n  hyper_param_options: {strategy: random, max_iterations: -3}",
        "hyperparams: {a: [1]}\n  param_file: p.csv",
        "param_file: s3://b/p.csv",
        "selector: max.x",
    ],
    ids=cases(),
)
def test_what_has_no_trials_is_refused_in_mlruns_words(rest: str, wording: Wording) -> None:
    wording(remarks_of(f"{FUNCTION}  {rest}\n"))


@pytest.mark.usefixtures("files")
def test_a_table_is_a_list() -> None:
    text = f"{FUNCTION}  param_file: p.csv\n  strategy: grid\n"
    document = with_named_file(source.parse(text, "f.yml"))
    assert (
        "strategy: a table in CSV is a list of trials; write `strategy: list`, or the lists as JSON"
        in str(importers.read(document.data).remarks[0])
    )

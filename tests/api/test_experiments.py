"""Experiments of files and of keyword arguments, and their plans."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import hpcdist
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.wording import Wording

TWO: Mapping[str, Any] = {"framework": "pytorch", "nodes": 2, "cmd": "python train.py", "site": "testbed"}
BATCH = {"account": "lab"}


def test_what_keyword_arguments_mean(folder: Path) -> None:
    defined = hpcdist.define(
        **TWO,
        gpus_per_node=4,
        tasks_per_node=2,
        cpus_per_task=3,
        env={"A": "no"},
        params={"lr": 0.1},
        image="train.sif",
        batch={**BATCH, "walltime": "2h"},
        environment={"restart": {"max": 1}},
    )
    resources = {"cpu": {"requests": 3}, "gpu": {"requests": 2}}
    expected = {
        "name": "experiment",
        "framework": "pytorch",
        "params": {"lr": 0.1},
        "environment": {
            "resources": resources,
            "replicas": {"n_workers": 3, "default_worker": {"resources": resources}},
            "env_vars": {"A": "no"},
            "restart": {"max": 1},
        },
        "build": {"image": "train.sif"},
        "run": {"cmd": "python train.py"},
        "batch": {"nodes": 2, "account": "lab", "walltime": "2h"},
    }
    assert yaml.safe_load(defined._document.text) == expected
    (folder / "same.yml").write_text(defined._document.text)
    same = hpcdist.load("same.yml", site="testbed", settings={"batch.container": False, "build": {}})
    assert same.render() == defined.changed(settings={"batch.container": False, "build": {}}).render()


def test_a_plan_is_a_value_that_shows_itself() -> None:
    plan = hpcdist.define(**{**TWO, "cmd": "echo '<b>'"}, gpus_per_node=4, batch=BATCH).plan()
    assert (plan.site, plan.nodes, plan.tasks) == ("testbed", 2, 8)
    assert plan.summary == "8 tasks by srun, 2 nodes, 8 GPUs (site testbed)"
    assert repr(plan) == f"<Plan {plan.name}: {plan.summary}>"
    html = plan._repr_html_()
    assert html.startswith("<table><tr><th>plan</th><td>")
    assert "<b>" not in html
    assert "<details><summary>job script</summary><pre>#!/bin/bash" in html
    [title, *_], [name, *_] = (column._cells for column in plan.__rich__().columns)
    assert (str(title), str(name)) == ("plan", plan.name)


def test_values_keep_their_types(folder: Path) -> None:
    text = "params: {a: 1, b: 2}\nrun: {cmd: 'echo {{ a }} {{ b + 1 }}'}\n"
    (folder / "exp.yml").write_text(text)
    loaded = hpcdist.load(folder / "exp.yml", params={"a": "0.10"}, site="local").changed(params={"b": 7})
    (folder / "exp.yml").unlink()
    assert "\necho 0.10 8\n" in loaded.render()
    assert loaded.check() == ()


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch": {"nodes": 3}},
        {"batc": {}},
        {"params": {"x": object()}},
        {"params": {"x": float("inf")}},
        {"gpus_per_node": 3, "tasks_per_node": 2},
        {"cmd": "echo {{ x }}"},
    ],
    ids=[
        "given twice",
        "an unknown key",
        "an object",
        "an infinite number",
        "GPUs that cannot be divided",
        "an unknown param",
    ],
)
def test_what_is_wrong_is_an_exception_of_the_one_tree(
    arguments: Mapping[str, Any], wording: Wording
) -> None:
    with pytest.raises(hpcdist.ConfigError) as caught:
        hpcdist.define(**{**TWO, **arguments})
    said_by_python = re.compile("(?<=experiment file can have: )[^;]+")
    wording(said_by_python.sub("WHY", str(caught.value)))


def test_what_does_not_fit_names_its_place() -> None:
    with pytest.raises(hpcdist.PlanError, match=r"^hpcdist\.define:\d+:\d+: "):
        hpcdist.define(**{**TWO, "nodes": 5000}, batch=BATCH).plan()


def test_suspect_nodes_are_excluded_and_named_as_by_submit(folder: Path) -> None:
    directory = rundir.create(folder / "runs", "train")
    record = Record("train", "t", "testbed", "slurm", "d", "2026-01-01T00:00:00+00:00")
    rundir.save(directory, replace(record, phase=Phase.SUBMITTED, job_id="7"))
    began = int(time.time()) - 3600
    (directory.path / "events").write_text(f"started 7 {began} 0\nlost 7 {began} n1\n")
    plan = hpcdist.define(**TWO, batch={**BATCH, "exclude_bad_nodes": True}).plan()
    assert "\n#SBATCH --exclude=n1\n" in plan.render()
    assert [problem.message for problem in plan.problems if "suspect" in problem.message] == [
        "excluded as suspect: n1 (lost 1h ago in train-1)"
    ]


def test_a_search_is_the_experiment_with_a_matrix() -> None:
    one = hpcdist.define(cmd="echo {{ lr }} {{ deep }}", params={"lr": 1, "deep": False}, site="local")
    matrix = {"lr": (0.1, 0.2), "deep": {"values": [True, False]}}
    found = hpcdist.sweep(one, matrix, concurrency=2)
    written = {"lr": {"values": [0.1, 0.2]}, "deep": {"values": [True, False]}}
    same = one.changed(settings={"hptuning": {"matrix": written, "concurrency": 2}})
    assert (found, found.plan().elements) == (same, 4)
    wrong = [(3, "lr"), ("0.1", "lr"), ({0.1, 0.2}, "no experiment file"), ([], "lr")]
    for values, message in (*wrong, ({"unifrom": [0, 1]}, "did you mean 'uniform'")):
        with pytest.raises(hpcdist.ConfigError, match=message):
            hpcdist.sweep(one, {"lr": values})


@pytest.mark.parametrize(
    "arguments",
    [
        {"nodes": "2"},
        {"gpus_per_node": 1.5},
        {"env": ["a"]},
        {"env": {1: 2}},
        {"batch": [1]},
    ],
    ids=str,
)
def test_arguments_of_another_type_are_refused(arguments: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(hpcdist.ConfigError) as refused:
        hpcdist.define(cmd="x", **arguments)
    wording(str(refused.value))


def test_params_and_settings_are_dicts(folder: Path) -> None:
    (folder / "small.yml").write_text("run: {cmd: x}\n")
    for arguments in ({"params": ["a"]}, {"settings": ["a"]}):
        with pytest.raises(hpcdist.ConfigError, match="is no dict with names as its keys"):
            hpcdist.load("small.yml", **arguments)  # type: ignore[arg-type]

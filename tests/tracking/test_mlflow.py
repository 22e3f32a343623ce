"""Runs of MLflow among the outputs."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import comparison, series
from hpcdist.tracking.series import RecordedMetrics, SeriesKey
from tests.tracking.test_client import CHECKOUT
from tests.tracking.test_comparison import run as run_of
from tests.tracking.test_loggers import curves, write

TREE: Final = {
    "mlruns/0/meta.yaml": "",
    "mlruns/0/tags/of_experiment": "x",
    "mlruns/0/aa/meta.yaml": "start_time: 1795421526601\nstatus: 3\n",
    "mlruns/0/00/meta.yaml": "start_time: 1795421526700\n",
    "mlruns/0/00/metrics/val/loss": "1795421526700 0.25 1\n1795421526600 0.125 2\n",
    "mlruns/0/aa/metrics/val/loss": (
        "1795421526600 1.0 0\n1795421526601 0.5 1\n1795421526600 1.0 0\n1795421526602 n"
    ),
    "mlruns/0/aa/metrics/odd": "1795421526600 nan 0\n\nx y z\n1 2\n",
    "mlruns/0/aa/params/lr": "0.1",
    "mlruns/0/aa/params/opt": "adam",
    "mlruns/0/aa/tags/team": "x",
    "mlruns/0/aa/tags/mlflow.user": "root",
    "mlruns/0/aa/artifacts/model/MLmodel": "",
    "mlruns/0/aa/artifacts/model/data/w": "12",
    "mlruns/0/bb/meta.yaml": "",
    "mlruns/0/bb/metrics/val/loss": "1795421526600 7 0\n",
    "mlruns/0/bb/tags/mlflow.parentRunId": "aa",
    "mlruns/0/bb/tags/mlflow.runName": "fold 1",
    "mlruns/0/models/m-1/meta.yaml": "",
    "mlruns/0/models/m-1/artifacts/MLmodel": "1234",
    "mlruns/0/models/m-1/metrics/val/loss": "1795421526600 1.0 0 aa\n1795421526601 0.5 1 aa\n",
    "mlruns-1/0/meta.yaml": "",
    "mlruns-1/0/cc/meta.yaml": "",
    "mlruns-1/0/cc/metrics/val/loss": "1795421526600 3 0\n",
}
"""What MLflow 3 writes, and the model of an earlier one; a later run, and a line that is cut short."""


def test_metrics_params_tags_and_models(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    for name, text in TREE.items():
        write(run.directory.path, name, text)
    found = series.read(run.directory, StoredPlan())
    values = {key: [*points.values] for key, points in found.series.items() if key.name != "odd"}
    assert values == {
        SeriesKey("9", "val/loss", 0): [1, 0.25, 0.125],
        SeriesKey("9", "fold 1/val/loss", 0): [7],
        SeriesKey("9", "val/loss", 1): [3],
    }
    odd = found.series[SeriesKey("9", "odd", 0)]
    assert [math.isnan(value) for value in odd.values] == [True]
    assert odd.times[0] == 1795421526.6
    [tracked] = comparison.tracked(run, StoredPlan())
    assert (tracked.params, tracked.tags) == ({"lr": 0.1, "opt": "adam"}, ("team=x",))
    models = [(item.artifacts[0].path, item.artifacts[0].bytes, item.metrics) for item in
              comparison.models([tracked])]  # fmt: skip
    assert [(path, size, values["val/loss"]) for path, size, values in models] == [
        ("mlruns/0/aa/artifacts/model", 2, 0.5),
        ("mlruns/0/models/m-1/artifacts", 4, 0.5),
    ]
    assert comparison.model_of(run) == "recorded a model"
    others = series.read_others(run.directory).others
    assert [entry.artifact.path for _, entry in others if entry.artifact] == [path for path, *_ in models]


def test_an_element_of_an_array_has_its_own(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    for name, text in TREE.items():
        write(run.directory.path, f"3/{name}", text)
    [tracked] = comparison.tracked(run, StoredPlan())
    assert tracked.name == "train-1/3"
    assert {each.path for each in tracked.artifacts} == {
        "mlruns/0/aa/artifacts/model",
        "mlruns/0/models/m-1/artifacts",
    }


def test_what_is_none_of_its_folders_is_left_alone(tmp_path: Path) -> None:
    assert curves(write(tmp_path, "meta.yaml", "metrics: {loss: 1}")) == {}
    assert curves(write(tmp_path, "models/x/meta.yaml", "x")) == {}


def test_odd_numbers(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    huge = "9" * 400
    for name, text in {
        "meta.yaml": "", "aa/meta.yaml": "start_time: x\n", "aa/metrics/m": f"1 1e999 {huge}\n{huge} 2 nan\n",
        "aa/params/huge": huge, "aa/params/true": "true", "aa/params/nan": "NaN",
        "aa/params/nested": "[" * 100_000,
    }.items():  # fmt: skip
        write(run.directory.path, f"mlruns/0/{name}", text)
    [tracked] = comparison.tracked(run, StoredPlan())
    assert tracked.params == {"huge": huge, "true": "true", "nested": "[" * 100_000, "nan": "NaN"}
    assert {*tracked.metrics} == {"m"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    for name, text in TREE.items():
        write(tmp_path / "other", name, text)
    store = tmp_path / "other" / "outputs" / "mlruns" / "0"
    run = write(tmp_path / "run", "mlruns/0/meta.yaml", "")
    mine = tmp_path / "run" / "outputs" / "mlruns" / "0"
    (mine / "aa").symlink_to(store / "aa")
    (mine / "models").symlink_to(store / "models")
    write(tmp_path / "run", "mlruns/0/cc/meta.yaml", "")
    (mine / "cc" / "metrics").symlink_to(store / "aa" / "metrics")
    assert series.read(run, StoredPlan()) == RecordedMetrics({}, [], 0)


PROGRAM: Final = """
import mlflow
mlflow.log_params({"lr": 0.1})
for step in range(3):
    mlflow.log_metric("val/loss", 1 / (step + 1), step=step)
mlflow.set_tag("team", "x")
class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: list[str]) -> list[str]:
        return model_input
mlflow.pyfunc.log_model(name="net", python_model=Model())
"""


@pytest.mark.extended
@pytest.mark.real
def test_what_mlflow_writes(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    store = run.directory.path / "outputs" / "mlruns-0"
    python = CHECKOUT / ".frameworks" / "mlflow" / "bin" / "python"
    variables = {"MLFLOW_TRACKING_URI": f"file:{store}", "MLFLOW_ALLOW_FILE_STORE": "true"}
    words = [str(python), "-W", "ignore", "-c", PROGRAM]
    subprocess.run(words, cwd=tmp_path, env={**os.environ, **variables}, check=True, timeout=300)
    write(run.directory.path, "note", "")
    [tracked] = comparison.tracked(run, StoredPlan())
    assert (tracked.params, tracked.tags) == ({"lr": 0.1}, ("team=x",))
    assert tracked.metrics == {"val/loss": pytest.approx(1 / 3)}
    [model] = comparison.models([tracked])
    assert (run.directory.path / "outputs" / model.artifacts[0].path / "MLmodel").is_file()
    assert {*model.metrics} == {"val/loss"}

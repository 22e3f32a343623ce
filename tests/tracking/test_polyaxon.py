"""Programs of Polyaxon, of 0.x and of 2.x, as they stand: no server, files instead."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import comparison, outputs, series
from hpcdist.tracking.outputs import Output
from hpcdist.tracking.series import SeriesKey
from tests.script.jobs import started
from tests.tracking.test_client import environment, lines
from tests.tracking.test_comparison import run as run_of
from tests.tracking.test_series import line, wrote

CHECKOUT: Final = Path(__file__).parents[2]

# --- The client of 2.18, whose files these are (without their other keys)

LOSS: Final = """step|timestamp|metric
0|2026-11-23 05:31:44.587314+00:00|1.0
1|2026-11-23 05:31:44.587552+00:00|0.5
2|2026-11-23 05:31:44.587628+00:00|nan"""
RUN: Final = {
    "uuid": "0" * 32,
    "tags": ["a"],
    "status": "succeeded",
    "inputs": {"lr": 0.1},
    "outputs": {"loss": 0.5},
}


def polyaxon(run: Path, place: str, loss: str = LOSS, data: str = json.dumps(RUN)) -> None:
    """Write what the client writes: ``JOB/ATTEMPT/polyaxon-RANK``."""
    folder = run / "tracking" / place / "runs" / ("0" * 32)
    (folder / "events" / "metric").mkdir(parents=True)
    (folder / "events" / "metric" / "val__loss.plx").write_text(loss)
    (folder / "resources" / "metric").mkdir(parents=True)
    (folder / "resources" / "metric" / "cpu.plx").write_text(LOSS)
    (folder / "run.plx.json").write_text(data)


def test_its_files_are_read_beside_ours(tmp_path: Path) -> None:
    run = run_of(tmp_path, params={"lr": 0.5, "seed": 1})
    polyaxon(run.directory.path, "7/0.0/polyaxon-0")
    wrote(run.directory.path, "7/0.0/rank-0", line(step=1, metrics={"loss": 3.0}))
    [found] = comparison.tracked(run, run.directory.plan())
    assert (found.params, found.tags) == ({"lr": 0.1, "seed": 1}, ("a",))
    assert {*found.metrics} == {"val__loss", "loss"}
    points = series.read(run.directory, run.directory.plan()).series[SeriesKey("7", "val__loss", 0)]
    assert [*points.steps] == [0, 1, 2]
    assert [*points.values][:2] == [1, 0.5]
    assert math.isnan(points.values[2])
    assert points.times[1] == pytest.approx(1795411904.587552)


@pytest.mark.parametrize(
    ("loss", "data", "values"),
    [
        ("", "{", []),
        ("step|timestamp|metric\n1|2026-11-23 05:31:44+00:00|0.5\n2|2026-11", "[]", [0.5]),
        ("step|timestamp|metric\n|2026-11-23 05:31:44+00:00|0.5\nx|y|z\n1|2|3|4\n", '{"inputs": 3}', [0.5]),
        ("\0\n\0|\0|\0\n", "[" * 100_000, []),
    ],
)
def test_what_is_damaged_is_left_out(tmp_path: Path, loss: str, data: str, values: list[float]) -> None:
    polyaxon(tmp_path, "7/0.0/polyaxon-3", loss, data)
    found = series.read(RunDirectory(tmp_path), RunDirectory(tmp_path).plan()).series.get(
        SeriesKey("7", "val__loss", 3)
    )
    assert [*(found.values if found else [])] == values


LINEAGES: Final = [
    {"name": "env", "kind": "env", "path": "outputs/env.json", "is_input": False},
    {"name": "mm", "kind": "model", "path": "outputs/m.txt", "is_input": False},
]
"""What it writes after ``log_model(path="m.txt", name="mm")``, without the summaries."""


@pytest.mark.parametrize(
    ("lineages", "is_model"),
    [(LINEAGES, True), (LINEAGES[:1], False), ({"kind": "model"}, False), (["model"], False)],
)
def test_a_model_that_was_logged_without_a_step_is_one(
    tmp_path: Path, lineages: object, *, is_model: bool
) -> None:
    """`rm --older` keeps runs with models; the client has an event only for a model at a step."""
    run = run_of(tmp_path)
    polyaxon(run.directory.path, "7/0.0/polyaxon-0")
    [folder] = run.directory.path.glob("tracking/7/0.0/polyaxon-0/runs/*")
    (folder / "lineages.plx.json").write_text(json.dumps(lineages))
    assert bool(comparison.model_of(run)) is is_model


def client_models(run: Path, place: str = "7/0.0/polyaxon-0") -> Path:
    """Write what the client writes of models at a step and without one; return its folder."""
    polyaxon(run, place)
    [folder] = (run / "tracking" / place / "runs").iterdir()
    (folder / "outputs" / "dir").mkdir(parents=True)
    (folder / "outputs" / "m.pt").write_text("weights")
    (folder / "outputs" / "dir" / "w").write_text("12")
    (folder / "events" / "model").mkdir()
    (folder / "events" / "model" / "stepped.plx").write_text(
        "step|timestamp|model\n"
        '3|2026-11-23 08:32:43.094876+00:00|{"framework":"pt","path":"assets/model/stepped_3.txt"}\n'
        "4|2026-11-23 08:32:43.094876+00:00|{\n"
    )
    lineages = [
        {"name": "env", "kind": "env", "path": "outputs/env.json", "summary": {}},
        {
            "name": "m",
            "kind": "model",
            "path": "outputs/m.pt",
            "summary": {"acc": 0.9, "ok": True, "big": 10**400},
        },
        {"name": "d", "kind": "model", "path": "outputs/dir", "summary": {"framework": None}},
        {"name": "ref", "kind": "model", "path": "/data/m.pt"},
        {
            "name": "stepped",
            "kind": "model",
            "path": "events/model/stepped.plx",
            "summary": {"is_event": True},
        },
        {"name": "odd", "kind": "model", "path": 3, "summary": []},
    ]
    (folder / "lineages.plx.json").write_text(json.dumps(lineages))
    return folder


@pytest.mark.parametrize(("place", "up"), [("7/0.0/polyaxon-0", ".."), ("7_3/0.0/polyaxon-0", "../..")])
def test_its_models_are_among_the_models(tmp_path: Path, place: str, up: str) -> None:
    run = run_of(tmp_path)
    folder = client_models(run.directory.path, place)
    found = [*comparison.models(comparison.tracked(run, run.directory.plan()))]
    kept = f"{up}/{folder.relative_to(run.directory.path)}"
    assert [(each.artifacts[0].path, each.artifacts[0].bytes, each.metrics) for each in found] == [
        (f"{kept}/outputs/m.pt", 7, {"acc": 0.9}),
        (f"{kept}/outputs/dir", 2, {}),
        ("/data/m.pt", 0, {}),
        (f"{kept}/assets/model/stepped_3.txt", 0, {}),
    ]


def test_its_models_are_among_the_outputs(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.directory.outputs.mkdir()
    (run.directory.outputs / "own").write_text("x")
    places = [
        str(client_models(run.directory.path, place).relative_to(run.directory.path))
        for place in ("7/0.0/polyaxon-0", "7_3/0.0/polyaxon-1")
    ]
    found = outputs.outputs(run.directory)
    assert found == [
        *(
            Output(f"../{place}/{name}", "model", size)
            for place in places
            for name, size in [("assets/model/stepped_3.txt", None), ("outputs/dir", 2), ("outputs/m.pt", 7)]
        ),
        Output("own", "file", 1),
    ]
    assert {outputs.check(run.directory, each) for each in found} == {""}


NEW: Final = """
from polyaxon import tracking

tracking.init()
tracking.log_inputs(lr=0.1)
for step in range(3):
    tracking.log_metrics(step=step, loss=1 / (step + 1))
tracking.log_metric("accuracy", 0.9, step=2)
tracking.log_tags(["baseline"])
open("m.pt", "w").write("weights")
tracking.log_model(path="m.pt", name="net", summary={"accuracy": 0.9})
tracking.log_model(path="m.pt", name="stepped", step=2)
tracking.end()
"""


@pytest.mark.extended
@pytest.mark.real
def test_the_client_of_2_records_for_each_rank_without_a_server(tmp_path: Path) -> None:
    python = CHECKOUT / ".frameworks" / "polyaxon" / "bin" / "python"
    (tmp_path / "train.py").write_text(NEW)
    with started(tmp_path, framework="pytorch", pytorch={"launch": "env"}, run={"cmd": f"{python} train.py"},
                 environment={"replicas": {"n_workers": 1}}) as job:  # fmt: skip
        out, _ = job.communicate(timeout=300)
    assert job.returncode == 0, out
    found = series.read(RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "run").plan())
    values = {(key.name, key.rank): [*points.values] for key, points in found.series.items()}
    loss = [1, 0.5, pytest.approx(1 / 3)]
    assert values == {("loss", 0): loss, ("loss", 1): loss, ("accuracy", 0): [0.9], ("accuracy", 1): [0.9]}
    noted = [(entry.params, entry.tags) for _, entry in found.others if not entry.artifact]
    assert noted == [({"lr": 0.1}, ("baseline",))] * 2
    artifacts = [entry.artifact for _, entry in found.others if entry.artifact]
    models = [(Path(each.path).name, each.bytes, each.metrics) for each in artifacts]
    assert models == [("m.pt", 7, {"accuracy": 0.9}), ("stepped_2.pt", 7, {})] * 2
    assert all((tmp_path / "run" / "outputs" / each.path).is_file() for each in artifacts)


# --- The client of 0.x, for which polyaxon_client stands in


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


OLD: Final = """
from polyaxon_client.tracking import Experiment, get_data_paths, get_outputs_path

experiment = Experiment()
experiment.set_name("mnist")
experiment.log_tags(["examples", "keras"])
experiment.log_params(max_features=1000, optimizer="adam")
experiment.log_data_ref(data=[1, 2], data_name="x_train")
for step in range(2):
    experiment.log_metrics(step=step, loss=0.5 / (step + 1))
experiment.log_metrics(accuracy=0.9, timestamp="now")
open("model.h5", "w").write("weights")
experiment.log_artifact("model.h5")
experiment.log_status("succeeded")
print(get_data_paths(), get_outputs_path(), experiment.get_outputs_path())
print(experiment.get_params(), experiment.get_experiment_info(), Experiment.get_task_info())
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_program_of_0_x_records_as_it_stands(folder: Path) -> None:
    info: dict[str, Any] = {"POLYAXON_RUN_DATA_PATHS": {"mnist": "/data"}, "POLYAXON_PARAMS": {"lr": 0.1}}
    info |= {
        "POLYAXON_EXPERIMENT_INFO": {"project_name": "p"},
        "POLYAXON_TASK_INFO": {"type": "master", "index": 0},
    }
    done = run(OLD, **{name: json.dumps(value) for name, value in info.items()})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "{'mnist': '/data'} outputs outputs",
        "{'lr': 0.1} {'project_name': 'p'} {'type': 'master', 'index': 0}",
    ]
    *recorded, artifact = lines()
    assert recorded == [
        {"tags": ["examples", "keras"]},
        {"params": {"max_features": 1000, "optimizer": "adam"}},
        {"metrics": {"loss": 0.5}, "step": 0},
        {"metrics": {"loss": 0.25}, "step": 1},
        {"metrics": {"accuracy": 0.9}},
    ]
    assert (artifact["artifact"]["path"], (folder / "outputs/model.h5").read_text()) == (
        "model.h5",
        "weights",
    )


def test_what_has_no_counterpart_is_refused_by_name(folder: Path) -> None:
    assert folder.is_dir()
    done = run("from polyaxon_client.tracking import Experiment; Experiment().get_cluster_def()")
    assert done.stderr.splitlines()[-1] == (
        "AttributeError: polyaxon_client.tracking: Experiment.get_cluster_def has no counterpart "
        "without a server; guard this call, or remove it"
    )


@pytest.mark.parametrize(("host", "used"), [("", "ours"), ("polyaxon.example.com", "theirs")])
def test_it_steps_aside_for_the_real_one_where_there_is_a_server(folder: Path, host: str, used: str) -> None:
    """Wherever that stands: PYTHONPATH comes before what is installed."""
    package = folder / "later" / "polyaxon_client"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "tracking.py").write_text("theirs = True")
    path = os.pathsep.join([environment()["PYTHONPATH"], str(package.parent)])
    program = (
        "from polyaxon_client import tracking; print('theirs' if hasattr(tracking, 'theirs') else 'ours')"
    )
    done = run(program, POLYAXON_HOST=host, PYTHONPATH=path)
    assert (done.stdout, done.stderr) == (f"{used}\n", "")

"""``hpcdist scale``: the plan and its cost, runs that are submitted once, and the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from hpcdist.runs.rundir import Phase, RunDirectory, save
from tests.wording import Wording

from .conftest import Hpcdist

PROGRAM: Final = """\
name: train
framework: pytorch
run:
  cmd: |
    %s -c "
    import hpcdist_tracking as tracking
    for step in range(3): tracking.log_metrics(step=step, images_per_second=100 + step)
    "
batch: {site: local, launcher: processes, walltime: 6m}
"""
WORDS: Final = ("scale", "train.yml", "--nodes", "1", "--repeat", "2")


@pytest.fixture(autouse=True)
def experiment(folder: Path) -> None:
    (folder / "train.yml").write_text(PROGRAM % sys.executable)


def test_a_study_is_planned_run_and_reported(folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    done = hpcdist(*WORDS, "--wait", "--plot", "plot.html")
    assert (done.code, done.err) == (0, "note: plot.html shows it; open it in a browser\n")
    lines = done.out.splitlines()
    assert lines[:3] == [
        "nodes  tasks  GPUs  walltime  runs  GPU-hours  node-hours",
        "1      1      0     00:06:00  2     0          0.2",
        "2 runs, at most 0 GPU-hours and 0.2 node-hours",
    ]
    assert [line.partition(":")[0] for line in lines[3:5]] == ["train-1-node-1", "train-1-node-2"]
    assert lines[5] == "train: weak scaling, images_per_second"
    assert lines[7].split()[:7] == ["1", "1", "0", "2", "101", "1.00", "1.00"]
    assert lines[8:] == ["largest size with an efficiency of at least 0.8: 1 node"]
    assert "images_per_second" in (folder / "plot.html").read_text()
    shown = json.loads(hpcdist("scale", "train-1-node-2", "--json").out)
    assert {name: shown[name] for name in ("experiment", "mode", "metric", "cost_unit", "fits")} == {
        "experiment": "train",
        "mode": "weak",
        "metric": "images_per_second",
        "cost_unit": "node-hours",
        "fits": [],
    }
    assert [(size["nodes"], size["runs"], size["throughput"]) for size in shown["sizes"]] == [
        (1, 2, {"median": 101.0, "low": 101.0, "high": 101.0})
    ]
    for metric in ("images_per_second:sum", "images_per_second:first", ":sum"):
        named = hpcdist("scale", "train-1-node-1", "--metric", metric, "--json")
        assert json.loads(named.out)["sizes"] == shown["sizes"]
    wrong = hpcdist("scale", "train-1-node-2", "--metric", "loss")
    wording(wrong.err)


def test_without_plotly_nothing_is_submitted_for_a_plot(
    folder: Path, hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.io", None)
    done = hpcdist(*WORDS, "--wait", "--plot", "plot.html")
    assert (done.code, done.out, (folder / "runs").exists()) == (2, "", False)
    wording(done.err)


def test_a_dry_run_shows_the_cost_and_submits_nothing(folder: Path, hpcdist: Hpcdist) -> None:
    done = hpcdist(*WORDS, "--dry-run", "--json")
    assert json.loads(done.out) == {
        "plan": [
            {
                "nodes": 1,
                "tasks": 1,
                "gpus": 0,
                "walltime_seconds": 360,
                "runs": 2,
                "gpu_hours": 0.0,
                "node_hours": 0.2,
                "charge": None,
                "unit": None,
            }
        ]
    }
    assert not (folder / "runs").exists()


def test_the_param_that_is_the_number_of_nodes_can_be_named(folder: Path, hpcdist: Hpcdist) -> None:
    text = (PROGRAM % sys.executable).replace("framework: pytorch", "framework: pytorch\nparams: {size: 7}")
    (folder / "train.yml").write_text(text)
    done = hpcdist("scale", "train.yml", "--nodes", "size=1", "--dry-run")
    assert (done.code, done.out.splitlines()[1].split()[:2]) == (0, ["1", "1"])


def test_a_run_of_no_study_has_no_report(folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    del folder
    assert hpcdist("submit", "train.yml", "--wait").code == 0
    done = hpcdist("scale", "train-1")
    assert done.code == 2
    wording(done.err)


def test_too_many_gpu_hours_are_refused(folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    words = ("scale", "ranks.yml", "--site", "sites/toy.yaml", "--set", "batch.launcher=srun")
    gpus = ("--set", "environment.resources.gpu.limits=4", "--set", "batch.site=toy", "--set")
    own = "environment.replicas={n_workers: 0}"
    done = hpcdist(*words, *gpus, own, "--set", "batch.walltime=1h", "--nodes", "1", "--max-gpu-hours", "3.9")
    assert done.code == 3
    wording(done.err)
    assert not (folder / "runs").exists()


def test_an_interrupted_study_goes_on_and_one_that_is_complete_begins_anew(
    folder: Path, hpcdist: Hpcdist
) -> None:
    runs = folder / "runs"
    assert hpcdist(*WORDS, "--json").code == 0
    second = RunDirectory(runs / "train-1-node-2")
    save(second, replace(second.record(), phase=Phase.CREATED, job_id=None))  # killed before it was submitted
    for mark in runs.glob("*/scaling.submitted"):
        mark.unlink()
    done = hpcdist(*WORDS)
    assert "an earlier study has 1 of 2 runs; the others are submitted" in done.err
    assert [line.partition(":")[0] for line in done.out.splitlines()[3:]] == [
        "train-1-node-3",
        "next  hpcdist scale train-1-node-1",
    ]
    done = hpcdist(*WORDS)
    assert done.err == ""
    assert [line.partition(":")[0] for line in done.out.splitlines()[3:]] == [
        "train-1-node-4",
        "train-1-node-5",
        "next  hpcdist scale train-1-node-4",
    ]
    assert hpcdist("wait", *(f"train-1-node-{number}" for number in (1, 3, 4, 5))).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("train.yml",),
        ("train.yml", "--nodes", "0"),
        ("train.yml", "--nodes", "1,,2"),
        ("train.yml", "--nodes", "²"),
        ("train.yml", "--nodes", "1,12345678901"),
        ("train.yml", "--nodes", ",".join(map(str, range(1, 1002)))),
        ("train.yml", "--nodes", "1", "--repeat", "0"),
        ("train.yml", "--nodes", "2"),
        ("train.yml", "--nodes", "1", "--chain"),
        ("pipeline.yml", "--nodes", "1"),
        ("notebook.yml", "--nodes", "1"),
        ("train.yml", "--nodes", "n=1"),
        ("train.yml", "--nodes", "=1"),
        ("train.yml", "--nodes", "1", "--plot", "x.html"),
        ("train.yml", "--nodes", "1", "--wait", "--plot", "x.pdf"),
        ("train.yml", "--nodes", "1", "--wait", "--plot", "no/x.html"),
        ("train.yml", "--nodes", "1", "--max-gpu-hours", "nan"),
        ("nothing-1",),
        ("nothing.yml",),
        ("train-1", "--repeat", "3", "--strong"),
        ("train-1", "--wait"),
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_what_cannot_be_is_refused(
    folder: Path, hpcdist: Hpcdist, words: tuple[str, ...], wording: Wording
) -> None:
    (folder / "pipeline.yml").write_text("{kind: pipeline, operations: [{name: a, run: {cmd: 'true'}}]}")
    (folder / "notebook.yml").write_text("{kind: notebook}")
    done = hpcdist("scale", *words)
    assert done.code in (2, 3)
    wording(done.err.replace(str(folder), "FOLDER"))
    assert not (folder / "runs").exists()

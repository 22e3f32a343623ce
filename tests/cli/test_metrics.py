"""``hpcdist metrics`` of jobs that ran on this machine."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wording import Wording

from .conftest import Hpcdist, Result, run_real

PROGRAM: Final = """
import math, os, time
from hpcdist_tracking import log_metrics
if os.environ["HPCDIST_TRACKING"].endswith(".0"):
    if os.environ["RANK"] == "1":
        time.sleep(600)
    for step in range(4):
        log_metrics({"val/accuracy": step / 10}, step=step, loss=math.nan if step == 2 else 1 - step / 4)
    raise SystemExit(3)
log_metrics({"\\x1b[2J,odd": 7}, loss=0.125, step=3, all_ranks=True)
"""


Metrics = Callable[..., Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a job of two tasks that fails once and is restarted; return its directory."""
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "train.yml").write_text(
        "name: train\n"
        "framework: pytorch\npytorch: {launch: env}\n"
        "environment: {replicas: {n_workers: 1}, max_restarts: 1}\n"
        f"run: {{cmd: '{sys.executable} {folder}/train.py'}}\n"
        "batch: {site: local, launcher: processes}\n"
    )
    runs = folder / "runs"
    done = run_real("submit", str(folder / "train.yml"), "--wait", "--runs-dir", str(runs))
    assert done.code == 0, done.err
    return runs / "train-1"


@pytest.fixture
def metrics(run: Path, hpcdist: Hpcdist) -> Metrics:
    """Ask for the metrics of that job."""
    return partial(hpcdist, "metrics", "train-1", "--runs-dir", str(run.parent))


@pytest.mark.extended
def test_a_table_with_the_last_attempt_where_there_are_two(metrics: Metrics) -> None:
    shown = metrics()
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "metric        rank  last   step  min    max    values  trend",
        "\\x1b[2J,odd   0     7      3     7      7      1       ▁",
        "\\x1b[2J,odd   1     7      3     7      7      1       ▁",
        "loss          0     0.125  3     0.125  1      4       █▆ ▁",
        "loss          1     0.125  3     0.125  0.125  1       ▁",
        "val/accuracy  0     0.3    3     0      0.3    4       ▁▃▆█",
    ]
    assert metrics("val/*").out.splitlines() == [
        "metric        last  step  min  max  values  trend",
        "val/accuracy  0.3   3     0    0.3  4       ▁▃▆█",
    ]


def test_every_value_as_csv_and_the_summary_as_json(metrics: Metrics, run: Path) -> None:
    [job] = (path.name for path in (run / "tracking").iterdir())
    rows = [*csv.DictReader(metrics("loss", "*odd", "--csv").out.splitlines())]
    found = [(row["metric"], int(row["rank"]), float(row["step"]), float(row["value"])) for row in rows]
    odd = "\\x1b[2J,odd"
    assert found[:4] == [(odd, 0, 3, 7), (odd, 1, 3, 7), ("loss", 0, 0, 1), ("loss", 0, 1, 0.75)]
    assert math.isnan(found[4][3])
    assert found[5:] == [("loss", 0, 3, 0.125), ("loss", 1, 3, 0.125)]
    assert {row["job"] for row in rows} == {job}
    data: list[dict[str, Any]] = json.loads(metrics("loss", "--json").out)
    summary = {"values": 4, "last": 0.125, "step": 3.0, "min": 0.125, "max": 1.0}
    assert data[0] == {"job": job, "name": "loss", "rank": 0, **summary}


def test_following_prints_each_call_and_ends_as_the_job(metrics: Metrics) -> None:
    shown = metrics("-f", "loss")
    assert (shown.code, shown.err) == (0, "note: train-1 completed\n")
    assert shown.out.splitlines() == [
        "step 0  loss 1.0",
        "step 1  loss 0.75",
        "step 2  loss nan",
        "step 3  loss 0.25",
        "step 3  loss 0.125",
        "rank 1  step 3  loss 0.125",
    ]


def test_a_metric_that_is_not_there(metrics: Metrics, wording: Wording) -> None:
    shown = metrics("los", "acc*", "loss")
    assert (shown.code, shown.out) == (2, "")
    wording(shown.err)


def test_a_run_that_recorded_none(hpcdist: Hpcdist, wording: Wording) -> None:
    assert hpcdist("submit", "ranks.yml", "--wait").code == 0
    shown = hpcdist("metrics", "ranks-1")
    assert (shown.code, shown.out) == (0, "")
    wording(shown.err)
    assert hpcdist("metrics", "ranks-1", "--json").out == "[]\n"


def test_damaged_lines_are_a_warning(run: Path, hpcdist: Hpcdist, folder: Path) -> None:
    shutil.copytree(run, folder / "copy-1")
    [file] = folder.glob("copy-1/tracking/*/0.1/rank-1.*")
    file.write_text("{}\n?\n" + file.read_text())
    shown = hpcdist("metrics", "copy-1", "loss", "--runs-dir", ".")
    assert (shown.code, shown.err) == (0, "warning: 2 damaged lines of what it recorded were skipped\n")
    assert len(shown.out.splitlines()) == 3


def test_one_form_at_a_time(metrics: Metrics) -> None:
    assert metrics("--csv", "--json").code == 2

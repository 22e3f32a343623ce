"""``hpcdist compare`` and ``outputs --models`` of runs of one experiment with several params."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.wording import Wording

from .conftest import Hpcdist, run_real

PROGRAM: Final = """
import sys
from hpcdist_tracking import log_metrics, log_model, log_params
lr = float(sys.argv[1])
log_params(batch_size=32)
for step in range(1, 4):
    log_metrics(step=step, loss=lr / step)
open("model", "w").write(str(lr))
log_model("model", accuracy=1 - lr)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run it with three learning rates; return the directory of the runs."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "train.yml").write_text(
        "name: train\n"
        "params: {lr: 0.1, seed: 1}\n"
        f"run: {{cmd: 'cd {folder} && {sys.executable} train.py {{{{ lr }}}}'}}\n"
        "batch: {site: local, launcher: processes}\n"
    )
    for lr in (0.1, 0.4, 0.2):
        words = (
            "submit",
            str(folder / "train.yml"),
            "--wait",
            "-p",
            f"lr={lr}",
            "--runs-dir",
            str(folder / "runs"),
        )
        done = run_real(*words)
        assert done.code == 0, done.err
    return folder / "runs"


@pytest.mark.extended
def test_runs_beside_each_other(runs: Path, hpcdist: Hpcdist) -> None:
    shown = hpcdist("compare", "--runs-dir", str(runs))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "run      seed  lr   batch_size  loss",
        "train-1  1     0.1  32          0.0333333",
        "train-2  1     0.4  32          0.133333",
        "train-3  1     0.2  32          0.0666667",
    ]
    shown = hpcdist("compare", "train-[12]", "--sort", "-loss", "--only-differing", "--runs-dir", str(runs))
    assert shown.out.splitlines() == [
        "run      lr   loss",
        "train-2  0.4  0.133333",
        "train-1  0.1  0.0333333",
    ]
    data = json.loads(hpcdist("compare", "train-1", "--json", "--runs-dir", str(runs)).out)
    assert data == [
        {
            "run": "train-1",
            "params": {"lr": 0.1, "seed": 1, "batch_size": 32},
            "tags": [],
            "metrics": {"loss": 0.1 / 3},
        }
    ]


def test_models(runs: Path, hpcdist: Hpcdist) -> None:
    shown = hpcdist("outputs", "--models", "--sort", "-accuracy", "--runs-dir", str(runs))
    assert [line.split() for line in shown.out.splitlines()] == [
        ["run", "model", "bytes", "sha256", "accuracy"],
        ["train-1", "model", "3", "14be4b45f18e", "0.9"],
        ["train-3", "model", "3", "44896b093657", "0.8"],
        ["train-2", "model", "3", "f3e360d89952", "0.6"],
    ]
    [data] = json.loads(hpcdist("outputs", "--models", "train-2", "--json", "--runs-dir", str(runs)).out)
    assert (data["run"], data["path"], data["metrics"]) == ("train-2", "model", {"accuracy": 0.6})


@pytest.mark.parametrize("words", [("compare",), ("outputs", "--models")], ids=" ".join)
def test_nothing_to_show(words: tuple[str, ...], hpcdist: Hpcdist, folder: Path) -> None:
    shown = hpcdist(*words)
    assert (shown.code, shown.out, shown.err) == (0, "", f"note: nothing was found in {folder}/runs\n")
    assert hpcdist(*words, "--json").out == "[]\n"


@pytest.mark.parametrize("words", [("none-1",), ("none-*",), ("--sort", "accuracy")], ids=" ".join)
def test_what_is_not_there(runs: Path, hpcdist: Hpcdist, words: tuple[str, ...], wording: Wording) -> None:
    shown = hpcdist("compare", *words, "--runs-dir", str(runs))
    assert (shown.code, shown.out) == (2, "")
    wording(shown.err.replace(str(runs), "RUNS"))

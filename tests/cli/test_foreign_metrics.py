"""What programs of other systems log as they stand, from their own files to ``hpcdist metrics``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from .conftest import Hpcdist, run_real

AZURE_PROGRAM: Final = """
import os
from azureml.core import Run
run = Run.get_context()
for step in range(3):
    run.log("loss", 1 / (step + 1), step=step)
open("outputs/model.pkl", "w").write("weights")
run.register_model("m", model_path="outputs/model.pkl")
print(os.environ["MLFLOW_TRACKING_URI"])
"""

AZURE: Final = "type: command\ncode: ./src\ncommand: python train.py\n"

GRADIENT_PROGRAM: Final = """
from gradient_utils.metrics import add_metrics, init
with init():
    for step in range(3):
        add_metrics({"loss": 1 / (step + 1)}, step=step)
"""

GRADIENT: Final = "experimentType: SINGLENODE\ncommand: python src/train.py\nmachineType: C5\n"


@pytest.mark.extended
@pytest.mark.parametrize(
    ("file", "program"),
    [(AZURE, AZURE_PROGRAM), (GRADIENT, GRADIENT_PROGRAM)],
    ids=["azure", "gradient"],
)
def test_metrics_of_a_program_as_it_stands(folder: Path, hpcdist: Hpcdist, file: str, program: str) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text(program)
    (folder / "train.yml").write_text(file)
    options = ("--site", "local", "--set", "batch.launcher=processes", "--runs-dir", "runs")
    done = run_real("submit", "train.yml", "--wait", *options)
    assert done.code == 0, done.err
    [run] = (folder / "runs").glob("*-1")
    [found] = json.loads(hpcdist("metrics", run.name, "--json", "--runs-dir", "runs").out)
    assert (found["name"], found["values"], found["last"]) == ("loss", 3, 1 / 3)
    if file == AZURE:
        [model] = json.loads(hpcdist("outputs", "--models", "--json", "--runs-dir", "runs").out)
        assert (model["path"], model["bytes"]) == ("model.pkl", 7)
        log = "".join(path.read_text() for path in (run / "logs").iterdir())
        assert f"file:{run}/outputs/mlruns-0\n" in log

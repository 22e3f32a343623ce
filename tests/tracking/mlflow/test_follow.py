"""A job on this machine is exported while it runs, by a process that is killed and by one that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.process import until
from tests.tracking.mlflow.servers import Server

pytestmark = [pytest.mark.real, pytest.mark.extended]

PROGRAM = """\
import os, time
from hpcdist_tracking import log_metrics, log_model
def go_on(name):
    while not os.path.exists(name): time.sleep(0.1)
for step in range(5):
    log_metrics(step=step, loss=1 / (step + 1))
go_on("second")
for step in range(5, 8):
    log_metrics(step=step, loss=1 / (step + 1))
go_on("third")
log_metrics(step=8, loss=0.0)
open("m.pt", "w").write("weights")
log_model("m.pt", loss=0.0)
"""
LOSSES = [(step, 1 / (step + 1)) for step in range(8)]


def test_live(server: Server, experiment: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    batch = "batch: {site: local, launcher: processes}"
    text = f"name: {experiment}\nrun: {{cmd: '{sys.executable} train.py'}}\n{batch}\n"
    (tmp_path / "exp.yml").write_text(text)
    hpcdist = [sys.executable, "-m", "hpcdist"]
    subprocess.run([*hpcdist, "submit", "exp.yml"], cwd=tmp_path, check=True, capture_output=True)
    words = [*hpcdist, "export", f"{experiment}-1", "--mlflow", server.uri, "--follow"]

    def losses() -> list[tuple[int, Any]]:
        run = the_run()
        found = server.history(run["info"]["run_id"], "loss") if run else []
        return [(step, value) for step, _, value in found]

    def the_run() -> dict[str, Any]:
        try:
            found = server.runs(experiment)
        except OSError:  # there is no such experiment yet
            return {}
        return found[0] if found else {}

    with subprocess.Popen(words, cwd=tmp_path, env=os.environ) as first:
        until(lambda: losses() == LOSSES[:5], "the first values in MLflow")
        assert the_run()["info"]["status"] == "RUNNING"
        first.send_signal(signal.SIGKILL)
    (tmp_path / "second").touch()
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as second:
        until(lambda: losses() == LOSSES, "the next values in MLflow")
        (tmp_path / "third").touch()
        out, err = second.communicate(timeout=120)
    assert (second.returncode, err.decode()) == (0, "")
    assert out.decode().startswith(f"{experiment}-1: ")
    assert losses() == [*LOSSES, (8, 0.0)]
    assert (the_run()["info"]["status"], server.files(the_run())["m.pt"]) == ("FINISHED", b"weights")

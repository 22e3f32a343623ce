"""Trials of an array that are worse than others, on the real Slurm: they end early, which is no failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]

PROGRAM = """\
import os, time
from hpcdist_tracking import log_metrics
lr = float(os.environ["LR"])
for step in range(1, 9):
    log_metrics(step=step, loss=lr / step)
    time.sleep(0.3)
"""


def test_the_worse_ones_of_an_array_are_pruned_and_the_run_completes(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    (user.directory / "train.py").write_text(PROGRAM)
    policy = {"kind": "median", "min_samples": 1, "min_interval": 2}
    stop = {"metric": "loss", "optimization": "minimize", "policy": policy}
    experiment = {
        "environment": {"env_vars": {"LR": "{{ lr }}"}},
        "hptuning": {"concurrency": 1, "mapping": [{"lr": lr} for lr in (2, 3, 1)], "early_stopping": [stop]},
        "run": {"cmd": "python3 train.py {{ lr }}"},
    }
    done = user.hpcdist("submit", user.write("prune", experiment), "--wait", timeout=300)
    assert done.returncode == 0, done.stderr
    shown = user.json("sweep", "status", "prune-1")
    assert [trial["state"] for trial in shown["trials"]] == ["completed", "pruned", "completed"]
    assert user.json("status", "prune-1")[0]["state"] == "completed"
    again = user.hpcdist("resume", "prune-1")
    assert (again.returncode, "all trials of prune-1 have completed" in again.stderr) == (2, True)

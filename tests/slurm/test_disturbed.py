"""Trainings that are disturbed at moments from a seed, on a real Slurm, end as undisturbed ones."""

from __future__ import annotations

import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.chaos import trained, training
from tests.slurm.cluster import Cluster
from tests.slurm.config import USERS
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]

RANKS: Final = 2
STEPS: Final = 150


class Disturbed:
    """A training of a user in a folder of its own."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int) -> None:
        folder.mkdir(mode=0o700)
        shutil.copy(training.__file__, folder)
        (folder / "go").touch()
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, USERS["hu1"], USERS["hu1"])
        self.user = User(cluster, folder)
        self.rnd = random.Random(seed)  # noqa: S311 - moments, no secrets
        self.words = f"training.py {RANKS} {STEPS} 0.05{seed}"
        """Its own command line, by which its processes are found."""
        experiment = {
            "framework": "pytorch",
            "pytorch": {"launch": "env"},
            "environment": {
                "replicas": {"n_workers": RANKS - 1},
                "restart": {"notice": "1m", "no_progress": 0},
            },
            "run": {"cmd": f"{sys.executable} {self.words}"},
            "batch": {"walltime": "10m"},
        }
        done = self.user.hpcdist("submit", self.user.write("train", experiment))
        assert done.returncode == 0, done.stderr
        [found] = self.user.json("status", "train-1")
        self.job = found["job_id"]

    def reaches(self, steps: int) -> bool:
        """Wait until it has done so many steps in all, some of them twice; return whether it goes on."""
        until(lambda: self.is_done() or self.steps() >= steps, f"step {steps}", 300)
        return not self.is_done()

    def is_done(self) -> bool:
        """Return whether the last step was done."""
        return trained.is_done(self.user.directory, STEPS)

    def steps(self) -> int:
        """Return how many steps were done."""
        return sum(row[0] == "step" for row in trained.rows(self.user.directory))

    def live(self) -> None:
        """Live through each harm once."""
        cluster = self.user.cluster
        harms = [
            ["pkill", "-KILL", "-f", self.words],
            ["scancel", "--batch", "--signal=URG", self.job],  # as the script's clock before the limit
            ["scontrol", "requeue", self.job],
        ]
        self.rnd.shuffle(harms)
        for words in harms:
            if self.reaches(self.steps() + self.rnd.randint(1, 2 * training.EVERY)):
                cluster.run(words, user="root")
        done = self.user.hpcdist("wait", "train-1")
        assert done.returncode == 0, done.stderr + self.user.log("train-1")

    def faults(self) -> list[str]:
        """Return what must not be."""
        losses = training.losses(RANKS, STEPS)
        shown = self.user.hpcdist("metrics", "train-1", "--csv").stdout
        return [
            *trained.faults(self.user.directory, losses),
            *trained.wrong_metrics(shown, losses),
        ]


def test_disturbed_trainings_end_as_undisturbed_ones(cluster: Cluster, workdir: Path) -> None:
    with ThreadPoolExecutor() as pool:
        found = [Disturbed(cluster, workdir / str(seed), seed) for seed in (1, 2)]
        [*pool.map(Disturbed.live, found)]
    assert [one.faults() for one in found] == [[], []]
    assert [one.user.json("status", "train-1")[0]["state"] for one in found] == ["completed", "completed"]

"""The main job: real training on the real Slurm, from `hpcdist submit` alone."""

from __future__ import annotations

import json
import re

import pytest

from tests.slurm.cluster import CHECKOUT
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.usefixtures("examples")]


def accuracy(log: str) -> float:
    found = re.search(r"test accuracy ([\d.]+)", log)
    assert found, log
    return float(found[1])


def trains(user: User, example: str, *options: str) -> str:
    done = user.hpcdist("submit", f"examples/{example}.yml", "--wait", *options)
    (run,) = (path.name for path in (user.directory / "runs").iterdir() if path.is_dir())
    log = user.log(run)
    assert done.returncode == 0, done.stderr + log
    assert accuracy(log) > 0.9
    recorded = json.loads(user.hpcdist("metrics", run, "--json", "accuracy", "loss").stdout)
    assert [(series["name"], series["rank"], series["values"] > 1) for series in recorded] == [
        ("accuracy", 0, False),
        ("loss", 0, True),
    ]
    assert recorded[0]["last"] == pytest.approx(accuracy(log), abs=1e-4)
    return run


def test_quickstart(user: User) -> None:
    run = trains(user, "quickstart")
    assert "2 tasks by srun, 1 node: n1 (job " in user.log(run)
    metrics = json.loads((user.directory / "runs" / run / "outputs" / "metrics.json").read_text())
    assert metrics["ranks"] == 2


@pytest.mark.parametrize(
    "launcher",
    [
        "srun",
        pytest.param("mpirun", marks=pytest.mark.extended),
        pytest.param("horovodrun", marks=pytest.mark.extended),
        pytest.param("horovodrun-mpi", marks=pytest.mark.extended),
    ],
)
def test_horovod_on_two_nodes(user: User, launcher: str) -> None:
    run = trains(
        user,
        "horovod_digits",
        f"--set=batch.launcher={launcher}",
        "--set=environment.resources.cpu.requests=8",
        "--set=environment.replicas.default_worker.resources.cpu.requests=8",
    )
    assert f"4 tasks by {launcher}, 2 nodes: n1 n2 (job " in user.log(run)
    assert " on 4 ranks" in user.log(run)


def test_the_rendered_script_runs_by_hand_without_hpcdist(user: User) -> None:
    rendered = user.hpcdist("render", "examples/quickstart.yml")
    assert rendered.returncode == 0, rendered.stderr
    (user.directory / "job.sh").write_text(rendered.stdout)
    path = f"{CHECKOUT}/.venv/bin:/usr/bin:/bin"
    done = user.cluster.run(["sbatch", "--wait", "job.sh"], cwd=user.directory, env={"PATH": path})
    (log,) = user.directory.glob("quickstart-*.out")
    assert done.returncode == 0, done.stderr + log.read_text()
    assert accuracy(log.read_text()) > 0.9

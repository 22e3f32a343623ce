"""The main job: real training on a real Grid Engine, from `hpcdist submit` alone."""

from __future__ import annotations

import json
import re

import pytest

from tests.sge.users import SITE, GridUser
from tests.slurm.cluster import CHECKOUT

pytestmark = pytest.mark.real

SIXTEEN_CPUS = (
    "--set=environment.resources.cpu.requests=8",
    "--set=environment.replicas.default_worker.resources.cpu.requests=8",
)


def accuracy(log: str) -> float:
    found = re.search(r"test accuracy ([\d.]+)", log)
    assert found, log
    return float(found[1])


def trains(user: GridUser, example: str, *options: str) -> str:
    done = user.hpcdist("submit", f"examples/{example}.yml", "--wait", *options)
    (run,) = (path.name for path in (user.directory / "runs").iterdir() if path.is_dir())
    log = user.log(run)
    assert done.returncode == 0, done.stderr + log
    assert accuracy(log) > 0.9
    return run


def test_quickstart(user: GridUser) -> None:
    run = trains(user, "quickstart")
    assert re.search(r"2 tasks by mpirun, 1 node: n\d \(job ", user.log(run))
    metrics = json.loads((user.directory / "runs" / run / "outputs" / "metrics.json").read_text())
    assert metrics["ranks"] == 2


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_horovod_on_two_hosts(user: GridUser, launcher: str) -> None:
    run = trains(user, "horovod_digits", f"--set=batch.launcher={launcher}", *SIXTEEN_CPUS)
    assert re.search(rf"4 tasks by {launcher}, 2 nodes: n\d n\d \(job ", user.log(run))
    assert " on 4 ranks" in user.log(run)


def test_two_hosts_over_qrsh(user: GridUser) -> None:
    (user.directory / "qrsh.yaml").write_text(SITE.read_text().replace("sge:\n", "sge:\n  remote: qrsh\n"))
    a_node = "resources={cpu: {requests: 16}}"
    sizes = [f"--set=environment.{where}{a_node}" for where in ("", "replicas.default_worker.")]
    run = trains(user, "quickstart", "--site=./qrsh.yaml", *sizes)
    assert re.search(r"2 tasks by mpirun, 2 nodes: n\d n\d \(job ", user.log(run))
    records = user.grid.run("qacct", "-j", user.job(run)).stdout
    assert records.count("jobnumber") == 2, records  # what qrsh starts has a record of its own


def test_the_rendered_script_runs_by_hand_without_hpcdist(user: GridUser) -> None:
    rendered = user.hpcdist("render", "examples/quickstart.yml")
    assert rendered.returncode == 0, rendered.stderr
    (user.directory / "job.sh").write_text(rendered.stdout)
    path = f"{CHECKOUT}/.venv/bin:/usr/bin:/bin"
    done = user.cluster.run(["qsub", "-sync", "y", "job.sh"], cwd=user.directory, env={"PATH": path})
    (log,) = user.directory.glob("quickstart-*.out")
    assert done.returncode == 0, done.stdout + done.stderr + log.read_text()
    assert accuracy(log.read_text()) > 0.9

"""A search as arrays on the real Slurm: what fails under it costs no trial, and none ends twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.process import until
from tests.slurm.test_restarts import KILLED, controller_down
from tests.slurm.users import ENVIRONMENT, User

pytestmark = [pytest.mark.real, pytest.mark.extended]

EXPERIMENT = {
    "hptuning": {"concurrency": 2, "matrix": {"n": {"range": [1, 7, 1]}}},
    "run": {"cmd": "until [ -e go ]; do sleep 0.1; done; echo {{ n }} >>$HPCDIST_OUTPUTS/ended"},
    "batch": {"partition": "v100", "exclusive": True, "walltime": "10m"},
}


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    """Return somebody whose arrays have two elements at most."""
    site = yaml.safe_load((CHECKOUT / "site_configs" / "testbed.yaml").read_text())
    (workdir / "small.yml").write_text(json.dumps(site | {"max_array_elements": 2}))
    return User(cluster, workdir)


def running(user: User) -> dict[int, str]:
    """Return the nodes of the trials that run."""
    found = user.json("status", *(f"six-1/{trial}" for trial in range(1, 7)))
    live = {one["trial"]: one["job_id"] for one in found if one["state"] == "running"}
    jobs = user.directory / "runs" / "six-1" / "jobs"
    return {trial: (jobs / job / "nodes").read_text().strip() for trial, job in live.items()}


def test_a_search_survives_a_killed_submission_a_lost_node_and_a_restart_of_slurmctld(user: User) -> None:
    (user.directory / "bin").mkdir()
    (user.directory / "bin" / "sbatch").write_text(KILLED)
    (user.directory / "bin" / "sbatch").chmod(0o755)
    words = ("submit", user.write("six", EXPERIMENT), "--site", "small.yml")
    assert user.hpcdist(*words, env={"PATH": f"{user.directory}/bin:{ENVIRONMENT['PATH']}"}).returncode != 0
    done = user.hpcdist(*words)
    assert (done.returncode, (user.directory / "calls").read_text()) == (0, "\n\n"), done.stderr
    until(lambda: running(user).keys() == {1, 2}, "two trials to run")
    node = running(user)[1]
    user.cluster.crash(node)
    with controller_down(user.cluster):
        (user.directory / "go").touch()
        ended = user.directory / "runs" / "six-1" / "outputs" / "2" / "ended"
        until(ended.exists, "trial 2 to end while nobody notices")
    until(lambda: user.cluster.states().get(node, "").startswith("down"), f"{node} to be down")
    user.cluster.restore(node)
    assert user.hpcdist("wait", "six-1").returncode != 0
    assert user.json("sweep", "status", "six-1")["states"] == {"vanished": 1, "completed": 5}
    assert [job["trials"] for job in user.json("resume", "six-1")] == ["1"]
    assert user.hpcdist("wait", "six-1").returncode == 0
    shown = user.json("sweep", "status", "six-1")
    assert (shown["states"], len(shown["jobs"])) == ({"completed": 6}, 4)
    files = (user.directory / "runs" / "six-1" / "outputs").glob("*/ended")
    assert {file.parent.name: file.read_text() for file in files} == {str(n): f"{n}\n" for n in range(1, 7)}

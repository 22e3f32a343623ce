"""Jobs of LSF over several hosts: real mpirun, real ssh; bsub, bjobs, bkill and jsrun are stand-ins."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.lsf import state
from tests.lsf.state import Config
from tests.slurm.cluster import CHECKOUT, Cluster, Completed
from tests.slurm.config import USERS
from tests.slurm.users import ENVIRONMENT, PROBE, User, probes

pytestmark = pytest.mark.real

FAKE = Path(__file__).parent / "fake"
PLAIN = Config(hosts=("n1", "n2"), remote=True, slots=16, gpus=4)
CSM = Config(
    hosts=("n1", "n2"), launch_host="head", csm=True, remote=True, slots=16, gpus=4, backwards=True, grace=10
)


@dataclass(frozen=True)
class LsfUser(User):
    """Somebody who finds LSF's commands on the PATH."""

    environment: dict[str, str] = field(default_factory=dict)

    def hpcdist(
        self, *words: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> Completed:
        return super().hpcdist(*words, env=self.environment | dict(env or {}), timeout=timeout)


def a_user(nodes: Cluster, workdir: Path, settings: Config, site: str) -> LsfUser:
    folder = state.make(workdir / "lsf", settings)
    for path in (folder, *folder.iterdir()):
        os.chown(path, USERS["hu1"], USERS["hu1"])
    (workdir / "examples").symlink_to(CHECKOUT / "examples")
    environment = {
        "PATH": f"{FAKE}:{ENVIRONMENT['PATH']}",
        "FAKE_LSF": str(folder),
        "HPCDIST_SITE": site,
        "HPCDIST_SITE_PATH": str(CHECKOUT / "tests" / "sites"),
    }
    return LsfUser(nodes, workdir, environment=environment)


@pytest.fixture
def plain(nodes: Cluster, workdir: Path) -> LsfUser:
    return a_user(nodes, workdir, PLAIN, "lsf-nodes")


@pytest.fixture
def csm(nodes: Cluster, workdir: Path) -> LsfUser:
    return a_user(nodes, workdir, CSM, "csm-nodes")


def accuracy(log: str) -> float:
    found = re.search(r"test accuracy ([\d.]+)", log)
    assert found, log
    return float(found[1])


@pytest.mark.extended
def test_the_quickstart_trains_on_two_hosts(plain: LsfUser) -> None:
    done = plain.hpcdist("submit", "examples/quickstart.yml", "--wait", env={"HPCDIST_SITE": "lsf"})
    log = plain.log("quickstart-1")
    assert done.returncode == 0, done.stderr + log
    assert "2 tasks by mpirun, 2 nodes: n1 n2 (job 101)" in log
    assert accuracy(log) > 0.9
    metrics = json.loads((plain.directory / "runs" / "quickstart-1" / "outputs" / "metrics.json").read_text())
    assert metrics["ranks"] == 2
    (shown,) = plain.json("status")
    assert (shown["state"], shown["native_state"], shown["exit_code"]) == ("completed", "DONE", 0)


@pytest.mark.extended
def test_horovod_trains_on_two_hosts(plain: LsfUser) -> None:
    done = plain.hpcdist(
        "submit",
        "examples/horovod_digits.yml",
        "--wait",
        "--set=environment.resources.cpu.requests=8",
        "--set=environment.replicas.default_worker.resources.cpu.requests=8",
    )
    log = plain.log("horovod-digits-1")
    assert done.returncode == 0, done.stderr + log
    assert "4 tasks by mpirun, 2 nodes: n1 n2 (job 101)" in log
    assert accuracy(log) > 0.9


PLANS = {
    "equal": {
        "framework": "mpi",
        "environment": {
            "resources": {"cpu": {"requests": 4}, "gpu": {"requests": 1}},
            "replicas": {
                "n_workers": 7,
                "default_worker": {"resources": {"cpu": {"requests": 4}, "gpu": {"requests": 1}}},
            },
        },
    },
    "unequal": {
        "framework": "pytorch",
        "environment": {
            "resources": {"cpu": {"requests": 8}, "gpu": {"requests": 2}},
            "replicas": {
                "n_workers": 4,
                "default_worker": {"resources": {"cpu": {"requests": 4}, "gpu": {"requests": 1}}},
            },
        },
    },
}


@pytest.mark.parametrize("name", PLANS)
def test_jsrun_starts_each_task_where_the_plan_has_it(csm: LsfUser, name: str) -> None:
    file = csm.write(name, {**PLANS[name], "run": {"cmd": PROBE}, "batch": {"account": "abc"}})
    done = csm.hpcdist("submit", file, "--wait")
    log = csm.log(f"{name}-1")
    assert done.returncode == 0, done.stderr + log
    (nodes,) = (csm.directory / "runs" / f"{name}-1" / "jobs").glob("*/nodes")
    order = ["n2", "n1"] if name == "equal" else ["n1", "n2"]
    assert nodes.read_text().split() == order  # jsrun's, and where a file names the hosts LSF's
    planned = csm.json("plan", file)["tasks"]
    keys = ("rank", "role", "index", "node", "local_rank")
    found = probes(csm, f"{name}-1")
    assert [{key: task[key] for key in keys} for task in found] == [
        {key: task[key] for key in keys} for task in planned
    ]
    # In every resource set they are counted from 0.
    assert [task["gpus"] for task in found] == [list(range(len(task["gpus"]))) for task in planned]


@pytest.mark.extended
def test_the_head_is_the_first_compute_host(csm: LsfUser) -> None:
    cmd = 'echo "head $HPCDIST_RANK $HPCDIST_HEAD_ADDRESS $MASTER_ADDR $(uname -n)"'
    resources = {"resources": {"cpu": {"requests": 16}}}
    file = csm.write(
        "head",
        {
            "framework": "pytorch",
            "environment": {**resources, "replicas": {"n_workers": 1, "default_worker": resources}},
            "run": {"cmd": cmd},
            "batch": {"account": "abc"},
        },
    )
    done = csm.hpcdist("submit", file, "--wait")
    assert done.returncode == 0, done.stderr + csm.log("head-1")
    assert sorted(re.findall(r"head (\d.*)", csm.log("head-1"))) == ["0 n2 n2 n2", "1 n2 n2 n1"]


@pytest.mark.extended
def test_cancel_ends_the_tasks_on_all_hosts(csm: LsfUser) -> None:
    file = csm.write(
        "long", {**PLANS["equal"], "run": {"cmd": "echo up; sleep 987.5"}, "batch": {"account": "abc"}}
    )
    assert csm.hpcdist("submit", file).returncode == 0
    csm.await_log("long-1", "7: up")
    assert csm.hpcdist("cancel", "long-1").returncode == 0
    done = csm.hpcdist("wait", "long-1")
    assert done.returncode != 0
    (shown,) = csm.json("status", "long-1")
    assert shown["state"] == "cancelled"
    for node in csm.cluster.nodes:
        assert csm.cluster.run(["pgrep", "-f", "sleep 987.[5]"], node=node).returncode == 1

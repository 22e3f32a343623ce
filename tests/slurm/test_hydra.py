"""MPICH's hydra over the cluster's nodes: where its tasks land, and what they get."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster, Completed
from tests.slurm.process import SYSTEM_PATH
from tests.slurm.test_shapes import SHAPES, lands_as_planned, needs, shape
from tests.slurm.users import PYTHON, User

MPICH = CHECKOUT / ".frameworks" / "mpich" / "bin"

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.fixture(autouse=True)
def installed() -> None:
    if not os.access(MPICH / "mpiexec.hydra", os.X_OK):
        pytest.fail(f"there is no MPICH in {MPICH.parent}: run `tools/setup all`", pytrace=False)


COMPONENTS = {
    "resources": needs(cpu=2),
    "node_selector": {"partition": "cpu"},
    "replicas": {
        "n_workers": 3,
        "default_worker": {"resources": needs(gpu=1), "node_selector": {"partition": "v100"}},
    },
}


@dataclass(frozen=True)
class WithMpich(User):
    """Somebody who has loaded MPICH."""

    def hpcdist(
        self, *words: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> Completed:
        path = {"PATH": f"{MPICH}:{PYTHON.parent}:{SYSTEM_PATH}"}
        return super().hpcdist(*words, env=path | dict(env or {}), timeout=timeout)


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    return WithMpich(cluster, workdir)


def two_tasks(user: User, command: str) -> Path:
    """Write an experiment of two tasks on two nodes."""
    environment = shape(needs(cpu=9), 1) | {"env_vars": {"ODD": "a b'c\"d,$e;f=g\\\n h"}}
    batch = {"launcher": "hydra"}
    keys = {"framework": "mpi", "environment": environment, "run": {"cmd": command}, "batch": batch}
    return user.write("two", keys)


@pytest.mark.parametrize(
    "name", ["eight-gpus-two-nodes", "five-gpus-uneven", "odd-worker-more-cpus", "big-master"]
)
def test_shape(user: User, name: str) -> None:
    lands_as_planned(user, name, {"framework": "mpi", "environment": SHAPES[name]}, "hydra")


def test_components(user: User) -> None:
    lands_as_planned(user, "het", {"framework": "mpi", "environment": COMPONENTS}, "hydra")


def test_variables_reach_the_other_node_and_a_failure_is_told(user: User) -> None:
    # hydra lets the others go on to their end: they do not know of MPI.
    file = two_tasks(user, '((HPCDIST_RANK == 0)) || { printf "odd %q\\n" "$ODD"; exit 5; }')
    done = user.hpcdist("submit", file, "--wait")
    log = user.log("two-1")
    assert done.returncode == 5, log
    assert "1: odd $'a b\\'c\"d,$e;f=g\\\\\\n h'" in log
    assert "hpcdist: rank 1 on n2 was the first to fail, with exit code 5" in log


def test_a_signal_reaches_all_tasks(user: User) -> None:
    file = two_tasks(user, "trap 'echo saved; exit 0' USR1; echo up; for i in {1..600}; do sleep 0.1; done")
    assert user.hpcdist("submit", file).returncode == 0
    user.await_log("two-1", "0: up")
    user.await_log("two-1", "1: up")
    job = user.json("status", "two-1")[0]["job_id"]
    user.cluster.run(["scancel", "--batch", "--signal=USR1", job], user=user.name, check=True)
    done = user.hpcdist("wait", "two-1")
    log = user.log("two-1")
    assert (done.returncode, log.count(": saved\n")) == (0, 2), log

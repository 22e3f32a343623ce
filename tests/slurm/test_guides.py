"""The topologies of Polyaxon's guides: each task proves who it is, what it has, whom it reaches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.users import User, framework_path

pytestmark = [pytest.mark.real, pytest.mark.extended]

GUIDES = CHECKOUT / "tests" / "slurm" / "guides"


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    for file in GUIDES.iterdir():
        (workdir / file.name).symlink_to(file)
    return User(cluster, workdir)


def proofs(user: User, guide: str, framework: str = "") -> list[dict[str, Any]]:
    """Submit a guide's file as it is, and return what its tasks print."""
    done = user.hpcdist("submit", f"{guide}.yml", "--wait", env={"PATH": framework_path(framework)})
    (run,) = (path.name for path in (user.directory / "runs").iterdir() if path.is_dir())
    log = user.log(run)
    assert done.returncode == 0, done.stderr + log
    return [json.loads(found) for found in re.findall(r"proof (\{.*\})", log)]


def task(role: str, index: int, host: str, cpus: int, gpus: int) -> dict[str, Any]:
    return {"role": role, "index": index, "host": host, "cpus": cpus, "gpus": gpus}


def everybody_knows_everybody(found: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> None:
    peers = {f"{each['role']} {each['index']}": each for each in tasks}
    order = [*peers]
    found.sort(key=lambda proof: order.index(f"{proof['me']['role']} {proof['me']['index']}"))
    assert found == [{"me": each, "peers": peers} for each in tasks]


def test_a_master_and_seven_workers_of_which_one_is_odd(user: User) -> None:
    found = proofs(user, "tensorflow_odd_worker")
    everybody_knows_everybody(found, [
        task("worker", 0, "n1", 2, 0),
        task("worker", 1, "n1", 1, 1),
        task("worker", 2, "n1", 1, 1),
        task("worker", 3, "n1", 3, 2),
        task("worker", 4, "n2", 1, 1),
        task("worker", 5, "n2", 1, 1),
        task("worker", 6, "n2", 1, 1),
        task("worker", 7, "n2", 1, 1),
    ])  # fmt: skip


def test_a_master_four_workers_and_two_servers_with_resources_of_their_own(user: User) -> None:
    found = proofs(user, "tensorflow_servers")
    everybody_knows_everybody(found, [
        task("master", 0, "n1", 1, 1),
        task("worker", 0, "n1", 2, 1),
        task("worker", 1, "n1", 2, 1),
        task("worker", 2, "n2", 2, 1),
        task("worker", 3, "n2", 4, 2),
        task("ps", 0, "c1", 2, 0),
        task("ps", 1, "c1", 5, 0),
    ])  # fmt: skip


def test_three_workers_and_a_server_of_mxnet(user: User) -> None:
    found = sorted(proofs(user, "mxnet", "mxnet"), key=str)
    worker = {"role": "worker", "cpus": 8}
    expected: list[dict[str, Any]] = [
        {"me": {"role": "scheduler", "host": "n1", "cpus": 1}},
        *({"me": worker | {"host": host}, "sum": 111, "workers": 3} for host in ("n1", "n2", "n3")),
        {"me": {"role": "server", "host": "n3", "cpus": 2}},
    ]
    assert found == sorted(expected, key=str)


def test_a_master_and_three_workers_of_pytorch(user: User) -> None:
    found = proofs(user, "pytorch")
    roles = ["master", "worker", "worker", "worker"]
    peers = [
        {"rank": rank, "role": role, "host": host, "cpus": 16, "gpus": 2}
        for rank, (role, host) in enumerate(zip(roles, ("n1", "n2", "n3", "n4"), strict=True))
    ]
    assert sorted(found, key=lambda proof: proof["me"]["rank"]) == [
        {"me": peer, "peers": peers} for peer in peers
    ]

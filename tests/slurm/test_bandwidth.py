"""The bandwidths of `hpcdist doctor --job` on the real Slurm: a slow node, nodes that are well, settings."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.long]

DOCTOR: Final = (PYTHON, "-m", "hpcdist", "doctor", "--gpus", "1", "--json")
SLOW: Final = ["tbf", "rate", "20mbit", "burst", "16kb", "latency", "100ms"]
"""A hundredth of what the machine's bridge gives, or less, however busy it is."""


@pytest.fixture
def slow_node(cluster: Cluster) -> Iterator[str]:
    root = functools.partial(cluster.run, user="root", node="n2", check=True)
    root(["tc", "qdisc", "add", "dev", "eth0", "root", *SLOW])
    yield "n2"
    root(["tc", "qdisc", "del", "dev", "eth0", "root"])


def bandwidths(user: User, *options: str) -> list[dict[str, Any]]:
    """Return the findings about bandwidths and settings."""
    env = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    done = user.cluster.run([*DOCTOR, *options], user=user.name, cwd=user.directory, env=env, timeout=400)
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    assert found, done.stderr
    return [item for item in found if item["group"].startswith(("bandwidth", "settings"))]


def test_a_node_that_was_slowed_down_is_named_by_both_libraries(user: User, slow_node: str) -> None:
    found = bandwidths(user, "--job", "4")
    accused = [item for item in found if item["name"] == "slow node"]
    assert [(item["group"], item["detail"].split(":")[0]) for item in accused] == [
        ("bandwidth: gloo", f"{slow_node} is slow"),
        ("bandwidth: mpi", f"{slow_node} is slow"),
    ]
    listed = [item["name"] for item in found if item["group"] == "bandwidth: mpi" and item["numbers"]]
    assert (listed[0], sorted(listed)) == (slow_node, ["n1", "n2", "n3", "n4"])


def accused(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in found if item["status"] in ("warning", "error")]


def test_of_nodes_that_are_well_nobody_is_accused_and_settings_are_compared(user: User) -> None:
    """Other tests compute on this machine meanwhile: not each of three jobs accuses somebody."""
    words = ("--job", "n[1,3-4]", "--set", "batch.launcher=mpirun", "--try", "OMPI_MCA_btl=self,tcp|")
    jobs = (bandwidths(user, *words) for _ in range(3))
    found = next((found for found in jobs if not accused(found)), [])
    names = [item["name"] for item in found if item["group"] == "bandwidth: gloo"]
    assert (sorted(names[:-1]), names[-1:]) == (["n1", "n3", "n4"], ["nodes"])
    tried = {item["name"]: item for item in found if item["group"] == "settings: mpi"}
    assert [*tried] == ["as it is", "OMPI_MCA_btl=self,tcp", "best"]
    assert tried["OMPI_MCA_btl=self,tcp"]["detail"].count(",") == 2

"""Tasks land as planned under newer Slurms, of Debian's stable and unstable, whatever connects the nodes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import USERS
from tests.slurm.test_shapes import SHAPES, all_land_as_planned
from tests.slurm.users import User

pytestmark = pytest.mark.real


@pytest.fixture(scope="module", params=[])
def newer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody on a cluster with the Slurm of a release, and with a topology."""
    release, topology = request.param
    with Cluster.boot(tmp_path_factory.mktemp("newer"), release=release, topology=topology) as cluster:
        directory = Path(tempfile.mkdtemp(dir=cluster.home(), prefix="work-"))
        os.chown(directory, USERS["hu1"], USERS["hu1"])
        yield User(cluster, directory)


@pytest.mark.parametrize("newer", [("sid", "tree")], indirect=True, ids=" ".join)
def test_two_shapes(newer: User) -> None:
    names = ("two-a-node", "five-gpus-uneven")
    shapes = {name: {"framework": "pytorch", "environment": SHAPES[name]} for name in names}
    all_land_as_planned(newer, shapes, "srun", exclusive=True)


@pytest.mark.extended
@pytest.mark.parametrize(
    "newer",
    [(release, topology) for release in ("trixie", "sid") for topology in ("flat", "tree", "block")],
    indirect=True,
    ids=" ".join,
)
def test_shapes(newer: User) -> None:
    shapes = {
        name: {"framework": "pytorch", "pytorch": {"launch": "env"}, "environment": environment}
        for name, environment in SHAPES.items()
    }
    all_land_as_planned(newer, shapes, "srun", exclusive=True)

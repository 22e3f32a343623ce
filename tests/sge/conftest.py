"""The Grid Engine that the tests of this folder share, healed after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sge.config import NODES
from tests.sge.grid import Grid
from tests.sge.requirements import missing
from tests.sge.users import GridUser
from tests.slurm.cluster import CHECKOUT, Cluster


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """Three hosts of 16 slots, two of them with four GPUs."""
    if problem := missing():
        pytest.fail(problem, pytrace=False)
    with Cluster.boot(tmp_path_factory.mktemp("grid"), nodes=NODES) as cluster:
        yield Grid.boot(cluster)


@pytest.fixture
def user(grid: Grid) -> Iterator[GridUser]:
    """Somebody in a fresh directory that all hosts share; whose jobs end with the test."""
    path = grid.cluster.workdir()
    (path / "examples").symlink_to(CHECKOUT / "examples")
    yield GridUser(grid.cluster, path, grid=grid)
    grid.heal()

"""The clusters that the tests of this folder share, healed after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.requirements import missing
from tests.slurm.users import User


@pytest.fixture(scope="session")
def standing() -> list[Cluster]:
    """The session's clusters that are up."""
    return []


def booted(directory: Path, standing: list[Cluster], *, accounting: bool) -> Iterator[Cluster]:
    if problem := missing(accounting=accounting):
        pytest.fail(problem, pytrace=False)
    with Cluster.boot(directory, accounting=accounting) as cluster:
        standing.append(cluster)
        yield cluster
        standing.remove(cluster)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, standing: list[Cluster]) -> Iterator[Cluster]:
    """Five nodes; sacct says that accounting is disabled, as on many small machines."""
    yield from booted(tmp_path_factory.mktemp("cluster"), standing, accounting=False)


@pytest.fixture(scope="session")
def accounting_cluster(
    tmp_path_factory: pytest.TempPathFactory, standing: list[Cluster]
) -> Iterator[Cluster]:
    """The same five nodes with slurmdbd: sacct remembers every job, a second or so late."""
    yield from booted(tmp_path_factory.mktemp("accounting"), standing, accounting=True)


@pytest.fixture(autouse=True)
def healed(standing: list[Cluster]) -> Iterator[None]:
    """Nodes that a test crashed and jobs that it left do not reach the next test."""
    yield
    for cluster in standing:
        cluster.heal()


@pytest.fixture
def workdir(request: pytest.FixtureRequest) -> Path:
    """A fresh directory of hu1 that all nodes share, in the accounting cluster where the test names that."""
    name = "accounting_cluster" if "accounting_cluster" in request.fixturenames else "cluster"
    cluster: Cluster = request.getfixturevalue(name)
    return cluster.workdir()


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    """Somebody in that directory."""
    return User(cluster, workdir)


@pytest.fixture
def examples(workdir: Path) -> None:
    """That directory has the examples, as a checkout has them."""
    (workdir / "examples").symlink_to(CHECKOUT / "examples")

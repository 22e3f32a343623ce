"""The test cluster's nodes, on which the stand-in of LSF starts jobs by ssh; its Slurm is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import DEFAULT_NODES
from tests.slurm.requirements import missing


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head, n1 and n2."""
    if problem := missing():
        pytest.fail(problem, pytrace=False)
    with Cluster.boot(tmp_path_factory.mktemp("cluster"), nodes=DEFAULT_NODES[:2]) as cluster:
        yield cluster


@pytest.fixture
def workdir(nodes: Cluster) -> Path:
    """A fresh directory of hu1 that all nodes share."""
    return nodes.workdir()

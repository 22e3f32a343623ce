"""One server of MLflow for the tests of a worker."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.tracking.mlflow.servers import Server, served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("mlflow")) as running:
        yield running


@pytest.fixture
def experiment(request: pytest.FixtureRequest) -> str:
    """Return a name of an experiment for this test."""
    return re.sub("[^a-z0-9]+", "-", str(request.node.name))[:60].strip("-")

"""The test Slurm of a benchmark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.slurm.config import USERS


@contextmanager
def booted() -> Iterator[tuple[Cluster, Path]]:
    """Boot a cluster, which ends with the block; yield it and an empty folder of its user."""
    with tempfile.TemporaryDirectory() as folder, Cluster.boot(Path(folder) / "cluster") as cluster:
        directory = cluster.home() / "bench"
        directory.mkdir()
        os.chown(directory, USERS["hu1"], USERS["hu1"])
        yield cluster, directory

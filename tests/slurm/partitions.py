"""Partitions that are there for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.slurm.cluster import Cluster


def administer(cluster: Cluster, *words: str) -> None:
    cluster.run(words, user="slurm", cwd=Path("/"), check=True)


@contextmanager
def partition(cluster: Cluster, options: str) -> Iterator[str]:
    """A partition of all nodes, which is there for one test."""
    administer(cluster, "scontrol", "create", "PartitionName=own", "Nodes=ALL", *options.split())
    try:
        yield "own"
    finally:
        cluster.heal()
        administer(cluster, "scontrol", "delete", "PartitionName=own")

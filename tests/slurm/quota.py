"""A node that is slow: all that runs on it gets a share of a CPU, by a cgroup of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.slurm.cluster import Cluster
from tests.slurm.process import family

_ROOTS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Of version 1, whose controllers have a tree each, and of version 2."""

_PERIOD: Final = 50_000
"""Microseconds."""


@contextmanager
def slowed(cluster: Cluster, node: str, share: float) -> Iterator[None]:
    """Give a node this share of one CPU, what it starts meanwhile included."""
    root = next(root for root in _ROOTS if (root / "cgroup.procs").exists())
    group = root / f"hpcdist-{os.getpid()}-{node}"
    group.mkdir()
    try:
        _limit(group, int(share * _PERIOD))
        for pid in family(cluster.pids[node]):
            _move(pid, group)
        yield
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in map(int, pids):
                _move(pid, root)
        group.rmdir()


def _limit(group: Path, quota: int) -> None:
    if (own := group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
        own.write_text(str(quota))
        return
    with suppress(OSError):  # where it is on already, or a process stands beside it
        (group.parent / "cgroup.subtree_control").write_text("+cpu")
    (group / "cpu.max").write_text(f"{quota} {_PERIOD}")


def _move(pid: int, group: Path) -> None:
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid))

"""Control groups of a cluster's nodes: each has a part of the host's hierarchies, and sees nothing above it.

Only version 1: of it a node may be given a part without systemd's help.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tests.slurm.config import Settings
from tests.slurm.mounts import MS_BIND, bind, cover, mount
from tests.slurm.process import until

HOST: Final = Path("/sys/fs/cgroup")
INSIDE: Final = Path("/run/cgroup")
"""Where the head and the nodes keep the host's hierarchies: /sys is their own."""
HIERARCHIES: Final = ("freezer", "systemd")
"""What proctrack/cgroup uses, and what slurmd looks for."""


def missing() -> str:
    """What this machine lacks for proctrack/cgroup, as one sentence; empty where nothing is missing."""
    lacking = [name for name in HIERARCHIES if not (HOST / name / "cgroup.procs").exists()]
    if not lacking:
        return ""
    return f"proctrack/cgroup needs control groups of version 1 under {HOST}: {', '.join(lacking)}"


def keep_for_nodes() -> None:
    """Make the host's hierarchies reachable for the nodes, before /sys is covered."""
    INSIDE.mkdir()
    bind(HOST, INSIDE)


def _groups(settings: Settings, root: Path) -> Iterator[Path]:
    name = f"hpcdist-{settings.directory.stat().st_ino}"
    hierarchies = (*HIERARCHIES, "memory") if settings.constrains_memory else HIERARCHIES
    return (root / hierarchy / name for hierarchy in hierarchies)


def enter(settings: Settings, node: str) -> None:
    """Give a node its part of each hierarchy in the place where a node has its whole one."""
    groups = [group / node for group in _groups(settings, INSIDE)]
    mount("tmpfs", HOST, "tmpfs", "mode=755")
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
        place = HOST / group.relative_to(INSIDE).parts[0]
        place.mkdir()
        mount(group, place, flags=MS_BIND)
    cover(INSIDE)


def remove(settings: Settings) -> None:
    """Remove the groups of a cluster that has ended: the kernel keeps one until its last process is gone."""
    for group in _groups(settings, HOST):
        until(partial(_is_removed, group), f"the control group {group} to be empty", 10, 0.05)


def _is_removed(group: Path) -> bool:
    folders = sorted((each for each in group.rglob("*") if each.is_dir()), reverse=True)
    for folder in (*folders, group):
        with suppress(OSError):
            folder.rmdir()
    return not group.exists()

"""Private file systems: hide a directory of the host, but keep what the cluster shares in its place."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

MS_BIND, MS_REC = 0x1000, 0x4000  # <sys/mount.h>
TMP, SHM = Path("/tmp"), Path("/dev/shm")  # noqa: S108 - each node has its own

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str | Path, target: Path, kind: str = "", options: str = "", flags: int = 0) -> None:
    """mount(2) itself, since mount(8) would resolve the /proc/self/fd links that `cover` relies on."""
    words = (os.fsencode(word) for word in (source, target, kind))
    checked(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), target)


def checked(answer: int, path: Path) -> None:
    """Raise what a system call on `path` answered, unless it is 0."""
    if answer != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(path))


def bind(source: str | Path, target: Path) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)


def cover(point: Path, keep: Iterable[Path] = (), mode: int = 0o755) -> None:
    """Lay an empty tmpfs over `point`; paths of `keep` that lie under it are still there afterwards."""
    kept = [(path, os.open(path, os.O_PATH)) for path in sorted(keep) if point in path.parents]
    mount("tmpfs", point, "tmpfs", f"mode={mode:o}")
    for path, handle in kept:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        bind(f"/proc/self/fd/{handle}", path)
        os.close(handle)


def open_up(path: Path, shared: Sequence[Path]) -> None:
    """Make `path` reachable for every user: what others may not enter on the way to it is covered.

    Modes of the host's own files are never changed, and what is not shared of a covered directory is hidden.
    A shared directory that is closed itself becomes a fixed set of entries: new ones do not reach the host.
    """
    for point in (*reversed(path.parents), path):
        inside = any(root == point or root in point.parents for root in shared)
        wanted = 0o005 if inside else 0o001
        if point.stat().st_mode & wanted != wanted:
            children = [child for child in point.iterdir() if child.exists()] if inside else []
            cover(point, {*shared, *children})

"""The system of another release of Debian as that of a cluster, for the sake of its Slurm.

`tools/setup` unpacks it into a folder, which is never written to: the cluster sees it below an empty layer.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.slurm.config import Settings
from tests.slurm.mounts import MS_BIND, MS_REC, checked, mount

CHECKOUT = Path(__file__).resolve().parents[2]
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
"""The system call's number, for which C libraries have no function (pivot_root(2))."""
_MNT_DETACH: Final = 2  # <sys/mount.h>

_libc = ctypes.CDLL(None, use_errno=True)


def folder(release: str) -> Path:
    """Return where `tools/setup` has unpacked a release."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hpcdist" / "slurm" / release


def newest() -> str:
    """Return the release with the newest Slurm; Debian's unstable cannot be unpacked on every day."""
    return next(release for release in ("sid", "trixie") if folder(release).exists())


def become(settings: Settings) -> None:
    """Make it the root of this process's mount namespace, with the paths that the cluster shares in it."""
    layers = Path("/mnt")  # of this namespace
    mount("tmpfs", layers, "tmpfs")
    upper, work, root = (layers / name for name in ("upper", "work", "root"))
    for path in (upper, work, root):
        path.mkdir()
    mount("overlay", root, "overlay", f"lowerdir={settings.root},upperdir={upper},workdir={work}")
    mount("proc", root / "proc", "proc")
    mount("/dev", root / "dev", flags=MS_BIND | MS_REC)
    mount("/sys", root / "sys", flags=MS_BIND | MS_REC)
    for path in (*_pythons(), *settings.shared):
        _bring(path, root / path.relative_to("/"))
    (root / "usr/bin/python3").unlink(missing_ok=True)
    (root / "usr/bin/python3").symlink_to(Path("/usr/bin/python3").resolve())
    os.chdir(root)
    checked(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), root)
    checked(_libc.umount2(b".", _MNT_DETACH), root)
    os.chdir("/")


def _pythons() -> Iterator[Path]:
    """Yield the files of the Python that runs the cluster, and of that of .venv."""
    for name in {Path("/usr/bin/python3").resolve(), (CHECKOUT / ".venv/bin/python").resolve()}:
        if name.parent == Path("/usr/bin"):
            yield from (name, Path("/usr/lib", name.name))
        else:
            yield name.parents[1]


def _bring(path: Path, place: Path) -> None:
    if path.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.touch()
    mount(path, place, flags=MS_BIND | MS_REC)

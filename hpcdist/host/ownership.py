"""Who else could exchange what lies in a folder: who owns the folders on the way, or may write there.

A folder that somebody else may rename can be another one at the next look, so the whole way counts, with
the links on it. Trusted are root, the owner of ``/`` (root also where a user namespace shows it as nobody),
and, for folders above, their owners and groups: they may change the programs that lie there as well.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.errors import ConfigError, Problem

Trust = Callable[[Path], bool]
"""Whether the user takes a folder as it is, whoever may write there."""

_MOST_LINKS: Final = 40
"""As many as Linux follows in one path."""


def nobody(_: Path) -> bool:
    """Trust no folder in which others could write."""
    return False


def check(folder: Path, handle: int, *, trusts: Trust = nobody, user: int | None = None) -> None:
    """Refuse a folder of runs in which somebody else could exchange what the user's jobs run.

    ``handle`` is the open folder.

    Raises:
        ConfigError: when it is not the user's own, or others may write there, or rename it.
        OSError: when the folders on the way cannot be looked at.
    """
    why = weakness(folder, handle, user)
    if why and not trusts(folder):
        hint = (
            "choose another folder with --runs-dir or $HPCDIST_RUNS_DIR; if you trust all of them, name this "
            "one in `trusted_runs` of your config"
        )
        raise ConfigError(Problem(f"others could exchange what your jobs run: {why}", hint=hint))


def make(folder: Path) -> None:
    """Make a folder for its owner only, and those above it that lack, where nobody else may write.

    Raises:
        OSError: when they cannot be made.
    """
    missing = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700 if path == folder else 0o755)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def weakness(folder: Path, handle: int, user: int | None = None) -> str:
    """Return who but the user could exchange this folder or what is in it; empty where nobody could.

    ``handle`` is the open folder.

    Raises:
        OSError: when the folders on the way cannot be looked at.
    """
    user = os.geteuid() if user is None else user
    return _on_the_way(folder, user) or _own(folder, os.fstat(handle), user)


def name_of(user: int) -> str:
    """Return the name of a user, else the number."""
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return f"user {user}"


def _own(folder: Path, found: os.stat_result, user: int) -> str:
    if found.st_uid != user:
        return f"{folder} belongs to {name_of(found.st_uid)}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {folder} (`chmod go-w {folder}` ends that)"
    return ""


def _on_the_way(folder: Path, user: int) -> str:
    trusted = {0, user, Path("/").stat().st_uid}
    for parent, entry, is_link in _steps(folder):
        above = parent.stat()
        if not above.st_mode & stat.S_IWOTH:
            continue
        if not above.st_mode & stat.S_ISVTX:
            return f"everybody may rename {entry} (`chmod +t {parent}` ends that)"
        if above.st_uid not in trusted:
            return f"everybody may write to {parent}, and {name_of(above.st_uid)} may rename what is there"
        if is_link and (owner := entry.lstat().st_uid) not in trusted:
            return f"the link {entry} belongs to {name_of(owner)}"
    return ""


def _steps(folder: Path) -> Iterator[tuple[Path, Path, bool]]:
    """Yield each folder on the way, what is looked up in it, and whether that is a link (it is followed)."""
    here, names, links = Path("/"), [*reversed(folder.absolute().parts[1:])], 0
    while names:
        name = names.pop()
        if name == "..":
            here = here.parent
            continue
        entry = here / name
        is_link = entry.is_symlink()
        yield here, entry, is_link
        if not is_link:
            here = entry
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
        target = entry.readlink()
        here = Path("/") if target.is_absolute() else here
        names += [part for part in reversed(target.parts) if part != "/"]

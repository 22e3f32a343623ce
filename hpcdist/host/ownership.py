"""Checks whether other users could replace the contents of a folder: owners and modes along its path.

A folder that another user may rename can be replaced, so the whole path is checked, including its links.
Trusted are root, the owner of ``/`` (which is root, even if a user namespace shows it as nobody), and, for
folders above, their owners and groups: they can change the programs in these folders as well.
"""

from __future__ import annotations

import errno
import getpass
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.errors import ConfigError, Problem

# --- The user's own folders, by the XDG Base Directory Specification, and homes in paths


def user_folder(variable: str, default: str, environment: Mapping[str, str]) -> Path | None:
    """Return ``hpcdist`` in the folder that the variable names, else in the default one of the user's home.

    None for a user without a home, as in containers that run under an unknown user id.
    """
    if named := environment.get(variable):
        return Path(named) / "hpcdist"
    with suppress(RuntimeError):
        return Path.home() / default / "hpcdist"
    return None


def expanded(path: str) -> Path:
    """Return a path whose leading ``~`` or ``~user`` is that home.

    Raises:
        ConfigError: if this machine does not know whose home it is.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        message = f"{path!r} is of a user that this machine does not know"
        raise ConfigError(Problem(message, hint="write an absolute path")) from None


# --- Checks whether other users could replace the contents of a folder

Trust = Callable[[Path], bool]
"""Whether the user trusts a folder to which others may write."""

_MOST_LINKS: Final = 40
"""The limit of Linux for one path."""


def trust_none(_: Path) -> bool:
    """Trust no folder in which others could write."""
    return False


def check(folder: Path, handle: int, *, trusts: Trust = trust_none, user: int | None = None) -> None:
    """Refuse a folder of runs in which others could replace what the user's jobs run.

    ``handle`` is the open folder.

    Raises:
        ConfigError: when it is not the user's own, or others may write to it, or rename it.
        OSError: when a folder on its path cannot be read.
    """
    why = weakness(folder, handle, user)
    if why and not trusts(folder):
        hint = (
            "choose another directory with --runs-dir or $HPCDIST_RUNS_DIR; if you trust the others, add "
            "this one to `trusted_runs` of your config"
        )
        raise ConfigError(Problem(f"others could replace what your jobs run: {why}", hint=hint))


def make(folder: Path) -> None:
    """Create a folder that only its owner can use, and missing parents to which only the owner can write.

    Raises:
        OSError: when they cannot be created.
    """
    missing = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700 if path == folder else 0o755)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def weakness(folder: Path, handle: int, user: int | None = None) -> str:
    """Return how another user could replace this folder or its contents; empty if nobody could.

    ``handle`` is the open folder.

    Raises:
        OSError: when a folder on its path cannot be read.
    """
    user = os.geteuid() if user is None else user
    return _path_weakness(folder, user) or _folder_weakness(folder, os.fstat(handle), user)


def name_of(user: int) -> str:
    """Return the name of a user, else the number."""
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return f"user {user}"


def own_name(known: Callable[[], str] = getpass.getuser) -> str:
    """Return the name of who runs this process, as ``known`` has it, else the number."""
    with suppress(KeyError, OSError):  # a container may have users without a name
        return known()
    return str(os.getuid())


def _folder_weakness(folder: Path, found: os.stat_result, user: int) -> str:
    if found.st_uid != user:
        return f"{folder} belongs to {name_of(found.st_uid)}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {folder} (run `chmod go-w {folder}`)"
    return ""


def _path_weakness(folder: Path, user: int) -> str:
    trusted = {0, user, Path("/").stat().st_uid}
    for parent, entry, is_link in _steps(folder):
        above = parent.stat()
        if not above.st_mode & stat.S_IWOTH:
            continue
        if not above.st_mode & stat.S_ISVTX:
            return f"everybody may rename {entry} (run `chmod +t {parent}`)"
        if above.st_uid not in trusted:
            return f"everybody may write to {parent}, and {name_of(above.st_uid)} may rename what is there"
        if is_link and (owner := entry.lstat().st_uid) not in trusted:
            return f"the link {entry} belongs to {name_of(owner)}"
    return ""


def _steps(folder: Path) -> Iterator[tuple[Path, Path, bool]]:
    """Yield each folder of the path, the entry in it, and whether that is a link, which is then followed."""
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

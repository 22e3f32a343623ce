"""Checks whether other users could replace the contents of a folder: owners and modes along its path.

A folder that another user may rename can be replaced, so the whole path is checked, including its links.
Trusted are root, the owner of ``/`` (which is root, even if a user namespace shows it as nobody), and, for
folders above, their owners and groups: they can change the programs in these folders as well.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
import pwd
import select
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from hpcdist.base.errors import ConfigError, Problem

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
    """Return how another user could replace this folder or its contents; empty if no user could.

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
    """Return the name of this process's user, from ``known``, else the number."""
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


# --- Files that other users may create or replace: read without blocking, with a size limit

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PIECE: Final = 1 << 16
_WRITER_TIMEOUT: Final = 10_000


def open_regular(path: str | Path, *, at: int | None = None) -> BinaryIO:
    """Open a regular file for reading; ``at`` is the descriptor of the folder of a relative path.

    It never blocks, and the last name of the path must not be a symbolic link.

    Raises:
        OSError: when it cannot be read, or is not a regular file; ``strerror`` is the reason.
    """
    try:
        handle = os.open(path, _READ | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP and stat.S_ISLNK(os.lstat(path, dir_fd=at).st_mode):
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    try:
        _check_regular(handle, path)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _check_regular(handle: int, path: str | Path) -> None:
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = "a FIFO" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) else "a special file"
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


def is_regular(path: Path) -> bool:
    """Whether this is a regular file, and not a link to one."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def own_target(path: Path) -> Path:
    """Return the regular file that a link names where both belong to one user; else the path itself.

    Such a link reveals nothing that its creator may not read.
    """
    with contextlib.suppress(OSError, RuntimeError):
        link = path.lstat()
        target = path.stat()
        if stat.S_ISLNK(link.st_mode) and stat.S_ISREG(target.st_mode) and target.st_uid == link.st_uid:
            return path.resolve()
    return path


def read(path: str | Path, limit: int, *, at: int | None = None) -> bytes:
    """Return the contents of a regular file of at most ``limit`` bytes.

    Raises:
        OSError: as `open_regular` does, and when the file is larger.
    """
    with open_regular(path, at=at) as stream:
        is_larger = os.fstat(stream.fileno()).st_size > limit
        data = b"" if is_larger else stream.read(limit + 1)
    if is_larger or len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB", str(path))
    return data


def read_user_file(path: str | Path, limit: int, timeout: int = _WRITER_TIMEOUT) -> bytes:
    """Return the first ``limit`` bytes of a file that the user names; it may be a link or a pipe.

    ``<(command)`` of a shell is a pipe, which is read to its end. A FIFO may be without a writer for
    ``timeout`` milliseconds.

    Raises:
        OSError: when it cannot be read.
    """
    handle = os.open(path, _READ)
    with contextlib.closing(os.fdopen(handle, "rb", buffering=0)):
        return b"".join(_pieces(handle, limit, path, timeout))


def _pieces(handle: int, limit: int, path: str | Path, timeout: int) -> Iterator[bytes]:
    waits_for_writer = stat.S_ISFIFO(os.fstat(handle).st_mode)
    while limit > 0:
        try:
            piece = os.read(handle, min(limit, _PIECE))
        except BlockingIOError:
            _is_ready(handle, None)
            continue
        if not piece and waits_for_writer:
            if not _is_ready(handle, timeout):
                raise OSError(errno.EPIPE, "it is a FIFO without a writer", str(path))
            waits_for_writer = False
            continue
        if not piece:
            return
        yield piece
        limit -= len(piece)


def _is_ready(handle: int, milliseconds: int | None) -> bool:
    """Wait until data can be read or the other end is closed."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(milliseconds))


def append(folder: int, name: str, data: bytes) -> None:
    """Append to a regular file of an open folder; a new one is readable by its owner only.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb", buffering=0) as file:
        _check_regular(handle, name)
        file.write(data)


@contextlib.contextmanager
def folder(path: Path) -> Iterator[int]:
    """Open a folder, so that all operations reach this folder even if its path is replaced.

    Raises:
        OSError: when it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def below(handle: int, names: Sequence[str]) -> Iterator[int]:
    """Open a folder below an open one, by the name of each on the way; one that is missing is made, 0700.

    Raises:
        OSError: when it cannot be opened, or is a link.
    """
    if not names:
        yield handle
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(names[0], 0o700, dir_fd=handle)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    child = os.open(names[0], flags, dir_fd=handle)
    try:
        with below(child, names[1:]) as found:
            yield found
    finally:
        os.close(child)


def write(folder: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file into an open folder atomically: readers see the old or the new file, also after a crash.

    An existing file of this name is replaced, never written to, so a link is not followed.

    Raises:
        OSError: when it cannot be written; nothing is left behind then.
    """
    temporary = f".{name}-{os.getpid()}-{os.urandom(4).hex()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)

"""Files that others may have made or may exchange: read without waiting, without end and without detours.

A FIFO in place of a record would hang every command that reads it, a link to /dev/zero would fill the
memory, and a link to another file would hand out or overwrite what its maker may not read or write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PIECE: Final = 1 << 16
_PATIENCE: Final = 10_000


def opened(path: str | Path, *, at: int | None = None) -> BinaryIO:
    """Open a regular file for reading; ``at`` is the descriptor of the folder that a relative path begins at.

    Nothing is waited for, and the last name of the path may be no symbolic link.

    Raises:
        OSError: when it cannot be read, or is no regular file; ``strerror`` says which.
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
        kind = "a FIFO" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) else "special"
        raise OSError(errno.EINVAL, f"it is {kind}, and no file", str(path))


def is_regular(path: Path) -> bool:
    """Whether there is a regular file of this name, which is no link to one."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def read(path: str | Path, limit: int, *, at: int | None = None) -> bytes:
    """Return what a regular file holds, at most so many bytes.

    Raises:
        OSError: as `opened` does, and when it holds more.
    """
    with opened(path, at=at) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB", str(path))
    return data


def read_named(path: str | Path, limit: int, patience: int = _PATIENCE) -> bytes:
    """Return the first so many bytes of a file that the user names: also through links, and of a pipe.

    ``<(command)`` of a shell is a pipe, and is waited for. For ``patience`` milliseconds a FIFO may lack
    somebody who writes to it.

    Raises:
        OSError: when it cannot be read.
    """
    handle = os.open(path, _READ)
    with contextlib.closing(os.fdopen(handle, "rb", buffering=0)):
        return b"".join(_pieces(handle, limit, path, patience))


def _pieces(handle: int, limit: int, path: str | Path, patience: int) -> Iterator[bytes]:
    waits_for_writer = stat.S_ISFIFO(os.fstat(handle).st_mode)
    while limit > 0:
        try:
            piece = os.read(handle, min(limit, _PIECE))
        except BlockingIOError:
            _is_ready(handle, None)
            continue
        if not piece and waits_for_writer:
            if not _is_ready(handle, patience):
                raise OSError(errno.EPIPE, "it is a FIFO to which nobody writes", str(path))
            waits_for_writer = False
            continue
        if not piece:
            return
        yield piece
        limit -= len(piece)


def _is_ready(handle: int, milliseconds: int | None) -> bool:
    """Wait until something can be read or the other end is closed."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(milliseconds))


def append(folder: int, name: str, data: bytes) -> None:
    """Add to a regular file of an open folder, made for its owner only if need be.

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
    """Open a folder, so that what is done in it is done in this one, whatever has its name later.

    Raises:
        OSError: when that is not possible.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def write(folder: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file into an open folder so that a reader, or a crash, sees the old one or the new one, whole.

    What has the name before is replaced and never written to, so a link leads nowhere.

    Raises:
        OSError: when it cannot be written; nothing is left of it then.
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

"""Files to which several processes append lines, none of which may come out half or mixed with another."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_TRIES: Final = 100
_PAUSE: Final = 0.02
"""A file is locked for milliseconds; a process that is stopped meanwhile must not block others."""


def append(file: Path, lines: Iterable[str], mode: int, sleep: Callable[[float], None] = time.sleep) -> None:
    """Append lines by one write, behind a newline: a full disk may have cut the last line short.

    The file is made with this mode, whatever the umask is, and is locked as far as its file system can: NFS
    writes what two machines append at once over each other (open(2), O_APPEND).

    Raises:
        OSError: if the file cannot be written or is no regular one, or not all of it was written.
    """
    data = "".join(f"\n{line}" for line in lines).encode()
    if not data:
        return
    handle = _opened(file, mode)
    try:
        _lock(handle, sleep)
        if os.write(handle, data + b"\n") <= len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
    finally:
        os.close(handle)


def _opened(file: Path, mode: int) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(file, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return os.open(file, flags)
    os.fchmod(handle, mode)
    return handle


def _lock(handle: int, sleep: Callable[[float], None]) -> None:
    """Lock the file until it is closed; after 2 s, or without locks, it is written as it is."""
    for _ in range(_TRIES):
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            sleep(_PAUSE)
        except OSError:
            return
        else:
            return

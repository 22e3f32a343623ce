"""One process at a time: locks on a file, which end with their process however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from hpcdist.errors import Problem, SchedulerError

_BUSY: Final = frozenset({errno.EAGAIN, errno.EACCES})
_NO_LOCKS: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})
"""What file systems without locks answer, such as a Lustre that is mounted without ``flock``."""

_SHORT_PAUSE: Final = 0.02
_SHORT_TRIES: Final = 100
"""What a folder is locked for takes milliseconds; a process that was stopped meanwhile holds nobody up."""

_PAUSE: Final = 0.2
_PATIENCE: Final = 300.0
"""A submission takes 120 s and 16 s more at most, and others may be first."""


@contextlib.contextmanager
def exclusive(
    folder: Path,
    digest: str,
    sleep: Callable[[float], None],
    busy: Callable[[], object],
    lock: Callable[[int, int, int, int], object] = fcntl.lockf,
) -> Iterator[None]:
    """Let no other process of this user, on no machine, work on the same experiment in this folder meanwhile.

    One byte of one file is locked, by its place: another experiment has another place. Such locks (fcntl)
    reach over NFS, and leave no trace when their process or its machine dies. ``busy`` is called once where
    there is another one to wait for. Where the file system has no locks, nothing is locked.

    Raises:
        SchedulerError: when the other one is not done after five minutes.
        OSError: when the file cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(folder / f".submit-{os.getuid()}.lock", flags, 0o600)
    try:
        _wait(lambda: _is_mine(handle, int(digest[:8], 16), lock), sleep, busy)
        yield
    finally:
        os.close(handle)


def _wait(is_free: Callable[[], bool], sleep: Callable[[float], None], busy: Callable[[], object]) -> None:
    waited = 0.0
    while not is_free():
        if not waited:
            busy()
        if waited > _PATIENCE:
            message = f"another `hpcdist submit` of the same experiment is at work for {_PATIENCE:.0f} s"
            raise SchedulerError(Problem(message, hint="wait until it has ended, or submit with --again"))
        sleep(_PAUSE)
        waited += _PAUSE


def _is_mine(handle: int, place: int, lock: Callable[[int, int, int, int], object]) -> bool:
    """Whether the byte is locked now by this process, or cannot be locked at all."""
    try:
        lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextlib.contextmanager
def folder(handle: int, sleep: Callable[[float], None]) -> Iterator[None]:
    """Let no other process of this host, and no other thread, work in an open folder meanwhile.

    No file is made for it. (flock(2): over NFS that of a folder does not reach other hosts.) After 2 s, and
    where the file system has no locks, the folder is used all the same.
    """
    for _ in range(_SHORT_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_SHORT_PAUSE)
        except OSError:
            break
        else:
            break
    yield

"""File locks, which are released when their process ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from hpcdist.base.errors import Problem, SchedulerError

_BUSY: Final = frozenset({errno.EAGAIN, errno.EACCES})
_NO_LOCKS: Final = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})
"""Errors of file systems without locks, such as Lustre mounted without ``flock``."""

_THREADS: Final[dict[str, threading.Lock]] = {}
"""A lock for each lock file: file locks do not keep the threads of a process apart."""

_SHORT_PAUSE: Final = 0.02
_SHORT_TRIES: Final = 100
"""Folders are locked for milliseconds; a process that is stopped meanwhile must not block others."""

_PAUSE: Final = 0.2
_TIMEOUT: Final = 300.0
"""A submission takes at most 136 s, unless it clones its code, and several may be waiting."""


@contextlib.contextmanager
def exclusive(  # noqa: PLR0913 - tests pass their own lock
    folder: Path,
    digest: str,
    sleep: Callable[[float], None],
    busy: Callable[[], object],
    lock: Callable[[int, int, int, int], object] = fcntl.lockf,
    *,
    name: str = "submit",
) -> Iterator[None]:
    """Lock an experiment in this folder against other processes of this user, on all machines, and threads.

    One byte of one file is locked, at the experiment's own offset. Such locks (fcntl) work over NFS,
    and are released when their process or its machine dies. ``busy`` is called once if another process holds
    the lock. If the file system has no locks, threads alone are locked. ``name``: of the file; all locks of a
    file end when this process closes it (fcntl(2)), so that threads wait for each other, also where their
    experiments differ, and locks inside each other need two names.

    Raises:
        SchedulerError: when the other process still holds the lock after five minutes.
        OSError: when the file cannot be created.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = folder / f".{name}-{os.getuid()}.lock"
    with _THREADS.setdefault(os.path.realpath(file), threading.Lock()):
        handle = os.open(file, flags, 0o600)
        try:
            _wait(lambda: _acquired(handle, int(digest[:8], 16), lock), sleep, busy)
            yield
        finally:
            os.close(handle)


def _wait(is_free: Callable[[], bool], sleep: Callable[[float], None], busy: Callable[[], object]) -> None:
    waited = 0.0
    while not is_free():
        if not waited:
            busy()
        if waited > _TIMEOUT:
            message = f"another `hpcdist submit` of the same experiment has been running for {_TIMEOUT:.0f} s"
            raise SchedulerError(Problem(message, hint="wait until it has ended, or submit with --again"))
        sleep(_PAUSE)
        waited += _PAUSE


def _acquired(handle: int, place: int, lock: Callable[[int, int, int, int], object]) -> bool:
    """Whether this process now holds the lock, or the file system has no locks."""
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
    """Lock an open folder against other processes and threads of this host.

    No file is created. (flock(2): over NFS a folder's lock is not seen by other hosts.) After 2 s, or if the
    file system has no locks, the folder is used without a lock.
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

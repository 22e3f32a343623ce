"""Files that are written as a whole: readers see the old one or the new one, also after a crash."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

STDOUT: Final = Path("-")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of this one at the end, unless there is an error; stdout for ``-``.

    What is there and is no regular file, such as a pipe, is written to.

    Raises:
        OSError: if it cannot be written; nothing is left behind then.
    """
    if path == STDOUT:
        yield sys.stdout.buffer
        return
    try:
        with _opened(Path(os.path.realpath(path))) as stream:
            yield stream
    except OSError as error:
        if error.filename is None:  # of a write, as of a full disk
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextlib.contextmanager
def _opened(target: Path) -> Iterator[BinaryIO]:
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with target.open("wb") as stream:
            yield stream
        return
    temporary = target.with_name(f".{target.name[:200]}-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with _created(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _created(temporary: Path) -> BinaryIO:
    try:
        return temporary.open("xb")
    except OSError as error:  # the user knows no file of this name
        raise OSError(error.errno, error.strerror) from None

"""Copies of what a run has, for a run that begins with them: outputs, checkpoints and the copy of its code.

Each file is one of its own, as programs may write in place; where the file system can, the copy shares the
blocks of the original until one is written (copy_file_range(2)). A symbolic link stays one: within the run it
leads to the copy, and out of it to where it led. What disappears meanwhile is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from hpcdist.code.prepare import FOLDER, RECORD, Code
from hpcdist.errors import ConfigError, Problem
from hpcdist.host import untrusted
from hpcdist.runs.rundir import RunDirectory

KEPT: Final = ("outputs", "checkpoints")
"""The folders with which a copy of a run begins."""

COPIED: Final = "copied"
"""A file of a run that began with such copies; scripts read whether it is there."""

_DIFF: Final = "code.diff"
_MOST: Final = 1 << 28
_PIECE: Final = 1 << 30


def copy(run: RunDirectory, new: RunDirectory) -> None:
    """Let a new run begin with the outputs and checkpoints of this one.

    Raises:
        OSError: if a file cannot be read or written.
    """
    for name in KEPT:
        _copy_folder(run.path, new.path, Path(name))
    mark(run, new)


def mark(run: RunDirectory, new: RunDirectory) -> None:
    """Let a new run know that it begins with copies of this one's files.

    Raises:
        OSError: if that cannot be written.
    """
    new.write(COPIED, f"{run.name}\n")


def copy_code(run: RunDirectory, new: RunDirectory) -> Code:
    """Let a new run have a copy of the code that this one has.

    Raises:
        ConfigError: if this one has none any more.
        OSError: if a file cannot be read or written.
    """
    if not (run.path / FOLDER).is_dir():
        hint = "-u takes it anew from the folder where the run was submitted"
        raise ConfigError(Problem(f"{run.path / FOLDER}, the code of {run.name}, is gone", hint=hint))
    _copy_folder(run.path, new.path, Path(FOLDER))
    data = json.loads(run.read(RECORD, _MOST))
    start = new.path / Path(data["start"]).relative_to(run.path)
    files = {RECORD: f"{json.dumps({**data, 'start': str(start)}, indent=2)}\n"}
    with suppress(FileNotFoundError):
        files[_DIFF] = run.read(_DIFF, _MOST).decode("utf-8", "surrogateescape")
    return Code(files, str(start), action=f"copy {run.path / FOLDER}, to {new.path / FOLDER}")


def _copy_folder(top: Path, new: Path, name: Path) -> None:
    try:
        entries = [*os.scandir(top / name)]
    except FileNotFoundError:
        return
    (new / name).mkdir(mode=0o700, exist_ok=True)
    for entry in entries:
        own = name / entry.name
        if entry.is_symlink():
            _copy_link(top, new, own)
        elif entry.is_dir(follow_symlinks=False):
            _copy_folder(top, new, own)
        elif entry.is_file(follow_symlinks=False):
            _copy_file(top / own, new / own)


def _copy_link(top: Path, new: Path, name: Path) -> None:
    with suppress(FileNotFoundError):
        leads_to = (top / name).readlink()
        if leads_to.is_absolute() and leads_to.is_relative_to(top):
            leads_to = new / leads_to.relative_to(top)
        (new / name).symlink_to(leads_to)


def _copy_file(source: Path, place: Path) -> None:
    with suppress(FileNotFoundError), untrusted.open_regular(source) as stream:
        found = os.fstat(stream.fileno())
        with place.open("xb") as copied:
            _copy_bytes(stream, copied, found.st_size)
            os.fchmod(copied.fileno(), stat.S_IMODE(found.st_mode) & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))


def _copy_bytes(stream: BinaryIO, copied: BinaryIO, size: int) -> None:
    """Copy a file by the kernel, where it can; between some file systems it cannot."""
    left = size
    with suppress(OSError):
        while left > 0 and (done := os.copy_file_range(stream.fileno(), copied.fileno(), min(left, _PIECE))):
            left -= done
    stream.seek(size - left)
    copied.seek(size - left)
    shutil.copyfileobj(stream, copied)

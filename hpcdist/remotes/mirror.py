"""The mirror: small files of a run there, written into its directory here; and when that was done last."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct

from hpcdist.host import untrusted
from hpcdist.runs.rundir import Run, RunDirectory

SEEN: Final = "remote.json"
"""A file of the mirror: when the remote last answered, by its clock and by the one here."""

_GROWING: Final = re.compile(r"(?:logs|tracking)/")
"""Folders of files that only grow, of which the new part is enough."""

_SMALL: Final = 1 << 20
"""A larger file is taken for one that only grows, wherever it is."""

_OVERLAP: Final = 120
"""Seconds by which the clocks of a login node and of its file server may differ."""

_LEFT: Final = frozenset({"outputs", "checkpoints", "code", "python"})
"""Folders that are not mirrored."""

_MINE: Final = re.compile(
    r"(?:record|plan|options|remote|scaling|accounting|pipeline).*\.json|.*\.(?:sh|py|yml|tsv)|code\..*|\..*",
    re.IGNORECASE,
)
_CALL: Final = re.compile(r"call\..*", re.IGNORECASE)
"""Results of calls are pickles: reading one runs what is in it."""


class Seen(Struct, frozen=True):
    """When the remote last answered about a run: seconds since 1970 there and here; 0 is never."""

    there: int = 0
    here: float = 0.0

    @property
    def since(self) -> str:
        """The time there, a little earlier, as ``touch -t`` reads it in UTC; empty for never."""
        return time.strftime("%Y%m%d%H%M.%S", time.gmtime(self.there - _OVERLAP)) if self.there else ""


def seen(run: Run) -> Seen:
    """Return when the remote last answered about this run."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode(run.directory.read(SEEN, _SMALL), type=Seen)
    return Seen()


def save_seen(directory: RunDirectory, at: Seen) -> None:
    """Record when the remote answered.

    Raises:
        OSError: if it cannot be written.
    """
    directory.write(SEEN, f"{msgspec.json.encode(at).decode()}\n")


def sizes(directory: RunDirectory) -> dict[str, int]:
    """Return how much is here of each file that only grows."""
    return {name: size for name, size in _files(directory.path) if _GROWING.match(name) or size > _SMALL}


def _files(top: Path) -> Iterator[tuple[str, int]]:
    for folder, folders, names, handle in os.fwalk(top):
        inside = Path(folder).relative_to(top)
        if inside == Path():
            folders[:] = [name for name in folders if name not in _LEFT]
        for name in names:
            with contextlib.suppress(OSError):
                yield str(inside / name), os.stat(name, dir_fd=handle, follow_symlinks=False).st_size


def write(directory: RunDirectory, name: str, offset: int, data: bytes, *, trusted: bool = False) -> None:
    """Write a part of a file there into the mirror; one that begins at 0 replaces the file.

    What a remote must not change, or what is outside of the run, is left alone; results of calls are written
    only if the remote is ``trusted``.

    Raises:
        OSError: if it cannot be written.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        return
    first = path.parts[0]
    if first.lower() in _LEFT or _MINE.fullmatch(first) or (_CALL.fullmatch(first) and not trusted):
        return
    folder = directory.path.joinpath(*path.parts[:-1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with untrusted.folder(folder) as handle:
        if not offset:
            untrusted.write(handle, path.name, data)
            return
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(path.name, flags, dir_fd=handle)
        with os.fdopen(file, "wb") as stream:
            if offset > os.fstat(file).st_size:
                raise OSError(errno.EINVAL, "a part that came begins behind the end of what is here")
            stream.seek(offset)
            stream.write(data)

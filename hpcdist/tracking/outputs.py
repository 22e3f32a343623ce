"""The files of a run's outputs, and whether they still are what was recorded of them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers.job import split_id
from hpcdist.tracking import series
from hpcdist.tracking.files import FOLDER, Artifact
from hpcdist.tracking.series import Metrics

_BESIDE: Final = Path("..", FOLDER)
_PIECE: Final = 1 << 20


class Output(NamedTuple):
    """A file below the outputs, or a folder that was recorded as one artifact.

    ``kind``: ``artifact`` or ``model`` as recorded, else ``file`` or ``link``. ``bytes`` is None where it is
    no longer there. ``sha256`` is the recorded hash, empty without one.
    """

    path: str
    kind: str
    bytes: int | None
    sha256: str = ""


def outputs(directory: RunDirectory, known: Metrics | None = None) -> list[Output]:
    """Return what was recorded and all other files, by their paths; links are not followed.

    ``known``: what the run recorded, if that was read before.

    Raises:
        OSError: if the run's files cannot be read.
    """
    folder = directory.outputs
    recorded = _recorded(known or series.read_others(directory))
    found = [
        Output(path, artifact.kind, _size(folder / path), artifact.sha256)
        for path, artifact in recorded.items()
    ]
    return sorted([*found, *_others(folder, recorded.keys())])


def _recorded(recorded: Metrics) -> dict[str, Artifact]:
    """Return the last artifact of each path; each element of an array has a folder of its own."""
    found: dict[str, Artifact] = {}
    for job, entry in recorded.others:
        if entry.artifact and (path := place(job, entry.artifact)):
            found[path] = entry.artifact
    return found


def place(job: str, artifact: Artifact) -> str | None:
    """Return the path of what a job or an element recorded, below the outputs; None if it is outside.

    A model of Polyaxon's own client is beside them: its path begins with ``../tracking``.
    """
    path = Path(os.path.normpath(Path(split_id(job)[1], artifact.path)))
    is_outside = path.parts[:1] in {(), ("..",)} and path.parts[:2] != _BESIDE.parts
    return None if is_outside or path.is_absolute() or "\0" in str(path) else str(path)


def top(directory: RunDirectory, path: str) -> Path:
    """Return the folder out of which no link of this artifact may lead."""
    folder = directory.outputs
    return folder / _BESIDE if _BESIDE in Path(path).parents else folder


def _others(folder: Path, recorded: Iterable[str]) -> Iterator[Output]:
    """Yield the files that were not recorded, also not with a folder."""
    known = {folder / path for path in recorded}
    for place, folders, files in () if folder.is_symlink() else os.walk(folder):
        folders[:] = [name for name in folders if Path(place, name) not in known]
        for path in (Path(place, name) for name in (*files, *folders)):
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if path not in known and not stat.S_ISDIR(mode):
                    kind = "link" if stat.S_ISLNK(mode) else "file" if stat.S_ISREG(mode) else "special"
                    yield Output(str(path.relative_to(folder)), kind, path.lstat().st_size)


def _size(path: Path) -> int | None:
    """Return the bytes of a file, or of the files of a folder; None if it is not there."""
    with suppress(OSError):
        if path.is_dir():
            return sum((path / file).stat().st_size for file in _files(path))
        return path.stat().st_size
    return None


def check(directory: RunDirectory, output: Output) -> str:
    """Return how an output compares with its record: ``ok``, ``changed``, ``missing`` or ``unreadable``.

    Empty for one without a recorded hash.
    """
    if not output.sha256:
        return ""
    place, within = directory.outputs / output.path, real(top(directory, output.path))
    if not os.path.lexists(place):
        return "missing"
    try:
        return "ok" if _hash(place, within) == output.sha256 else "changed"
    except OSError:
        return "unreadable"


def real(path: Path) -> Path:
    """Return where a path leads to; `Path.resolve` ends with a RuntimeError where links are a loop."""
    return Path(os.path.realpath(path))


def _hash(path: Path, within: Path) -> str:
    """Return the SHA-256 of a file; of a folder, that of its list, as `hpcdist_tracking` computes them."""
    if not path.is_dir():
        return _hash_of_file(path, within)
    digest = hashlib.sha256()
    for file in sorted(_files(path)):
        line = f"{_hash_of_file(path / file, within)}  {file}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (str(Path(place, name).relative_to(folder)) for name in names)


def _hash_of_file(path: Path, within: Path) -> str:
    place = real(path)
    if within not in place.parents:
        raise OSError(errno.ELOOP, "it is a link out of the outputs", str(path))
    digest = hashlib.sha256()
    with untrusted.open_regular(place) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()

"""The files of a run's outputs, and whether they still match their records."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from hpcdist.base import ownership
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers.job import split_id
from hpcdist.tracking import files, series
from hpcdist.tracking.files import FOLDER, Artifact, TrackedEntry
from hpcdist.tracking.series import RecordedMetrics

_NEXT_TO: Final = Path("..", FOLDER)
_PIECE: Final = 1 << 20


class Output(NamedTuple):
    """A file below the outputs, or a folder that was recorded as one artifact.

    ``kind``: ``artifact`` or ``model`` as recorded, else ``file`` or ``link``; ``there``: only on its
    remote. ``bytes`` is None where it is no longer there. ``sha256`` is the recorded hash, empty without one.
    """

    path: str
    kind: str
    bytes: int | None
    sha256: str = ""


def outputs(
    directory: RunDirectory,
    known: RecordedMetrics | None = None,
    remote: Mapping[str, int] = MappingProxyType({}),
) -> list[Output]:
    """Return recorded artifacts and all other files, by their paths; links are not followed.

    ``known``: the run's records, if read before. ``remote``: the bytes of files that are only on its remote,
    or differ there.

    Raises:
        OSError: if the run's files cannot be read.
    """
    folder = directory.outputs
    recorded = artifacts((known or series.read_others(directory)).others)
    found = [
        Output(path, artifact.kind, files.size(folder / path), artifact.sha256)
        for path, artifact in recorded.items()
    ]
    here = {output.path: output for output in (*found, *_others(folder, recorded.keys()))}
    for path, size in remote.items():
        here[path] = here.get(path, Output(path, "there", size))._replace(bytes=size)
    return sorted(here.values())


def artifacts(entries: Iterable[tuple[str, TrackedEntry]]) -> dict[str, Artifact]:
    """Return the last artifact of each path of these jobs; each element of an array has its own folder."""
    return {
        path: entry.artifact
        for job, entry in entries
        if entry.artifact and (path := place(job, entry.artifact))
    }


def place(job: str, artifact: Artifact) -> str | None:
    """Return the path of a job's or element's artifact below the outputs; None if it is outside.

    A model of Polyaxon's own client is next to the outputs: its path begins with ``../tracking``.
    """
    path = Path(os.path.normpath(Path(split_id(job)[1], artifact.path)))
    is_outside = path.parts[:1] in {(), ("..",)} and path.parts[:2] != _NEXT_TO.parts
    return None if is_outside or path.is_absolute() or "\0" in str(path) else str(path)


def top(directory: RunDirectory, path: str) -> Path:
    """Return the folder that links of this artifact must not leave."""
    folder = directory.outputs
    return folder / _NEXT_TO if _NEXT_TO in Path(path).parents else folder


def _others(folder: Path, recorded: Iterable[str]) -> Iterator[Output]:
    """Yield the files that were not recorded, alone or with their folder."""
    known = {folder / path for path in recorded}
    for place, folders, names in () if folder.is_symlink() else os.walk(folder):
        folders[:] = [name for name in folders if Path(place, name) not in known]
        for path in (Path(place, name) for name in (*names, *folders)):
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if path not in known and not stat.S_ISDIR(mode):
                    kind = "link" if stat.S_ISLNK(mode) else "file" if stat.S_ISREG(mode) else "special"
                    yield Output(str(path.relative_to(folder)), kind, path.lstat().st_size)


def check(directory: RunDirectory, output: Output) -> str:
    """Return how an output compares with its record: ``ok``, ``changed``, ``missing`` or ``unreadable``.

    Empty without a recorded hash.
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
    """Return where a path leads; `Path.resolve` raises RuntimeError for a loop of links."""
    return Path(os.path.realpath(path))


def _hash(path: Path, within: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's list, as `hpcdist_tracking` computes it."""
    if not path.is_dir():
        return _hash_of_file(path, within)
    digest = hashlib.sha256()
    for file in sorted(str(each.relative_to(path)) for each in files.below(path)):
        line = f"{_hash_of_file(path / file, within)}  {file}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _hash_of_file(path: Path, within: Path) -> str:
    place = real(path)
    if within not in place.parents:
        raise OSError(errno.ELOOP, "it is a link out of the outputs", str(path))
    digest = hashlib.sha256()
    with ownership.open_regular(place) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


# --- The files of artifacts and models that are now in the outputs; links are not followed

_WHY: Final = {
    "missing": "is no longer there",
    "changed": "has changed since it was recorded",
    "unreadable": "cannot be read, or has a link out of the outputs",
}


class KeptFile(NamedTuple):
    """A regular file; ``path`` is below the outputs."""

    path: str
    place: Path


class KeptArtifact(NamedTuple):
    """The files of an artifact; ``odd``: paths with their problem, as the end of a sentence."""

    files: tuple[KeptFile, ...]
    odd: tuple[tuple[str, str], ...]


def in_run(path: str) -> str:
    """Return the path of a file of the outputs as seen from the directory of the run."""
    return os.path.normpath(Path("outputs", path))


def kept(directory: RunDirectory, path: str, artifact: Artifact) -> KeptArtifact:
    """Return the files of an artifact, after reading each once."""
    recorded = Output(path, artifact.kind, artifact.bytes, artifact.sha256)
    why = _WHY.get(check(directory, recorded))
    odd = [(path, why)] if why else []
    within, files = real(top(directory, path)), []
    for file in sorted(_below(directory.outputs / path)):
        name = str(file.relative_to(directory.outputs))
        if ownership.is_regular(file) and within in real(file).parents:
            files.append(KeptFile(name, file))
        else:
            odd.append((name, "is a link or no regular file, and is left out"))
    return KeptArtifact((*files,), (*odd,))


def _below(place: Path) -> Iterator[Path]:
    if place.is_dir() and not place.is_symlink():
        for folder, folders, names in os.walk(place):
            yield from (Path(folder, name) for name in names)
            yield from (path for name in folders if (path := Path(folder, name)).is_symlink())
    elif os.path.lexists(place):
        yield place

"""The files of artifacts and models, as they now lie in the outputs; links are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import outputs
from hpcdist.tracking.files import Artifact
from hpcdist.tracking.outputs import Output

_WHY: Final = {
    "missing": "is no longer there",
    "changed": "has changed since it was recorded",
    "unreadable": "cannot be read, or has a link out of the outputs",
}


class File(NamedTuple):
    """A regular file; ``path`` is below the outputs."""

    path: str
    place: Path


class Kept(NamedTuple):
    """What there is of an artifact; ``odd``: paths with what is odd about them, as the end of a sentence."""

    files: tuple[File, ...]
    odd: tuple[tuple[str, str], ...]


def in_run(path: str) -> str:
    """Return the path of a file of the outputs as seen from the directory of the run."""
    return os.path.normpath(Path("outputs", path))


def find(directory: RunDirectory, path: str, artifact: Artifact) -> Kept:
    """Return the files of an artifact, of which all are read once."""
    recorded = Output(path, artifact.kind, artifact.bytes, artifact.sha256)
    why = _WHY.get(outputs.check(directory, recorded))
    odd = [(path, why)] if why else []
    within, files = outputs.real(outputs.top(directory, path)), []
    for file in sorted(_below(directory.outputs / path)):
        name = str(file.relative_to(directory.outputs))
        if untrusted.is_regular(file) and within in outputs.real(file).parents:
            files.append(File(name, file))
        else:
            odd.append((name, "is a link or no regular file, and is left out"))
    return Kept((*files,), (*odd,))


def _below(place: Path) -> Iterator[Path]:
    if place.is_dir() and not place.is_symlink():
        for folder, folders, names in os.walk(place):
            yield from (Path(folder, name) for name in names)
            yield from (path for name in folders if (path := Path(folder, name)).is_symlink())
    elif os.path.lexists(place):
        yield place

"""The files that the processes of a run recorded: ``tracking/JOB_ID/RESTART.TRY/rank-N.HOST.PID.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs.record import JOB_ID
from hpcdist.runs.rundir import RunDirectory

FOLDER: Final = "tracking"
_JOB: Final = re.compile(JOB_ID)
_ATTEMPT: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_POLYAXON: Final = re.compile(r"polyaxon-([0-9]{1,9})")
_FILE: Final = re.compile(r"rank-([0-9]{1,9})\..{1,200}\.jsonl")


class Recorded(NamedTuple):
    """A file of one process; ``job`` is the job or the element of an array.

    ``attempt``: how often the batch system had started the job before, and the script its program. Files
    sort by job, attempt and rank.
    """

    job: str
    attempt: tuple[int, int]
    rank: int
    path: Path


def recorded(directory: RunDirectory) -> list[Recorded]:
    """Return the files of a run in their order; names that no process writes are ignored.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    with directory.opened():
        return sorted(_in(directory.path / FOLDER, _FILE))


def of_polyaxon(directory: RunDirectory) -> list[Recorded]:
    """Return the folders of Polyaxon's own client, one a rank, in their order.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    with directory.opened():
        return sorted(_in(directory.path / FOLDER, _POLYAXON))


def _in(folder: Path, name: re.Pattern[str]) -> Iterator[Recorded]:
    for job in _entries(folder, _JOB):
        for attempt in _entries(folder / job[0], _ATTEMPT):
            place = folder / job[0] / attempt[0]
            numbers = (int(attempt[1]), int(attempt[2]))
            yield from (
                Recorded(job[0], numbers, int(file[1]), place / file[0]) for file in _entries(place, name)
            )


def _entries(folder: Path, name: re.Pattern[str]) -> Iterator[re.Match[str]]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from filter(None, (name.fullmatch(path.name) for path in folder.iterdir()))


def opened(file: Recorded) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: if it cannot be read, or is no regular file.
    """
    return untrusted.open_regular(file.path)

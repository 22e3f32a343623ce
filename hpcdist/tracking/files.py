"""The files that the processes of a run recorded: ``tracking/JOB_ID/RESTART.TRY/rank-N.HOST.PID.jsonl``."""

from __future__ import annotations

import os
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
_FILE: Final = re.compile(r"rank-([0-9]{1,9})\..{1,200}\.jsonl|polyaxon-([0-9]{1,9})")


class Recorded(NamedTuple):
    """What one process recorded: a file, or the folder of Polyaxon's client (`hpcdist.tracking.polyaxon`).

    ``job`` is the job or the element of an array. ``attempt``: how often the batch system had started the
    job before, and the script its program. They sort by job, attempt and rank.
    """

    job: str
    attempt: tuple[int, int]
    rank: int
    path: Path

    @property
    def is_polyaxon(self) -> bool:
        """Whether it is a folder of Polyaxon's own client."""
        return self.path.name.startswith("polyaxon-")


def recorded(directory: RunDirectory) -> list[Recorded]:
    """Return what the processes of a run recorded, in this order; names that no process writes are ignored.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    with directory.opened():
        return sorted(_in(directory.path / FOLDER))


def _in(folder: Path) -> Iterator[Recorded]:
    for job in _entries(folder, _JOB):
        for attempt in _entries(folder / job[0], _ATTEMPT):
            place = folder / job[0] / attempt[0]
            numbers = (int(attempt[1]), int(attempt[2]))
            for file in _entries(place, _FILE):
                yield Recorded(job[0], numbers, int(file[1] or file[2]), place / file[0])


def _entries(folder: Path, name: re.Pattern[str]) -> Iterator[re.Match[str]]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from filter(None, map(name.fullmatch, os.listdir(folder)))  # noqa: PTH208 - names alone


def opened(file: Recorded) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: if it cannot be read, or is no regular file.
    """
    return untrusted.open_regular(file.path)

"""The files that the processes of a run recorded: ``tracking/JOB_ID/RESTART.TRY/rank-N.HOST.PID.jsonl``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs.record import JOB_ID
from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking.entries import Entry, Losses, Reader, unread

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


def recorded(directory: RunDirectory, losses: Losses) -> list[Recorded]:
    """Return what the processes of a run recorded, in this order; names that no process writes are ignored.

    Folders that cannot be read are added to ``losses``.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    with directory.opened():
        return sorted(_in(directory.path / FOLDER, losses))


def _in(folder: Path, losses: Losses) -> Iterator[Recorded]:
    for job in _names(folder, _JOB, losses):
        for attempt in _names(folder / job[0], _ATTEMPT, losses):
            place = folder / job[0] / attempt[0]
            numbers = (int(attempt[1]), int(attempt[2]))
            for file in _names(place, _FILE, losses):
                yield Recorded(job[0], numbers, int(file[1] or file[2]), place / file[0])


def _names(folder: Path, name: re.Pattern[str], losses: Losses) -> Iterator[re.Match[str]]:
    try:
        yield from filter(None, map(name.fullmatch, os.listdir(folder)))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return
    except OSError as error:
        losses.unread.append(unread(folder, error))


def entries(file: Recorded, losses: Losses) -> Iterator[Entry]:
    """Yield the entries of a file.

    Raises:
        OSError: as `opened` does.
    """
    with opened(file) as stream:
        reader = Reader(stream)
        yield from reader.new()
        losses.damaged += reader.damaged


def opened(file: Recorded) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: if it cannot be read, or is no regular file.
    """
    return untrusted.open_regular(file.path)

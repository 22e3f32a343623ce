"""The files that the processes of a run recorded: ``tracking/JOB_ID/RESTART.TRY/rank-N.HOST.PID.jsonl``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from hpcdist.errors import ConfigError
from hpcdist.host import untrusted
from hpcdist.runs import rundir
from hpcdist.runs.events import JOB_ID
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers.job import split_id

# --- The lines of a file that a process recorded: one of JSON for each call of `hpcdist_tracking`

_PIECE: Final = 1 << 22
_LONGEST: Final = 1 << 24
"""Bytes of a line; what is longer is damaged, and must not fill the memory."""


class Artifact(msgspec.Struct, frozen=True):
    """A file or folder that is kept: its path below the outputs, and its hash when it was recorded."""

    kind: str
    path: str
    sha256: str
    bytes: int
    metrics: Mapping[str, float | str] = {}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One call: ``at`` in seconds since 1970; NaN and infinities are ``nan``, ``inf``, ``-inf`` as text."""

    at: float
    step: float | str | None = None
    metrics: Mapping[str, float | str] = {}
    params: Mapping[str, Any] = {}
    tags: tuple[str, ...] = ()
    artifact: Artifact | None = None


_decoder: Final = msgspec.json.Decoder(Entry)
_INVALID: Final = (
    msgspec.DecodeError,
    ValueError,
    RecursionError,
)  # the first is a ValueError from msgspec 0.21 on


class Losses:
    """What could not be read: ``damaged`` lines, and a sentence for each of the ``unread`` files."""

    def __init__(self) -> None:
        self.damaged = 0
        self.unread: list[str] = []


def unread(path: Path, error: OSError) -> str:
    """Return the sentence of a file or folder that cannot be read."""
    return f"{error.filename or path} was not read: {error.strerror}"


class Reader:
    """Reads a file that may still be written to; what is not yet written to its end is left for later."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest = b""
        self.damaged = 0
        """How many whole lines were no entries."""

    def new(self) -> Iterator[Entry]:
        """Yield the entries that were not read before, up to where the file now ends.

        Raises:
            OSError: if the file cannot be read.
        """
        left = (
            os.fstat(self._stream.fileno()).st_size - self._stream.tell()
        )  # it may grow faster than it is read
        while left > 0 and (piece := self._stream.read(min(left, _PIECE))):
            left -= len(piece)
            whole, newline, self._rest = (self._rest + piece).rpartition(b"\n")
            if newline:
                yield from self._decoded(whole)
            if len(self._rest) > _LONGEST:
                self._rest = b"?"  # so that the end of this line is no entry

    def _decoded(self, lines: bytes) -> list[Entry]:
        try:
            return _decoder.decode_lines(lines)
        except _INVALID:
            return [*self._one_by_one(lines)]

    def _one_by_one(self, lines: bytes) -> Iterator[Entry]:
        for line in filter(None, lines.split(b"\n")):
            try:
                yield _decoder.decode(line)
            except _INVALID:
                self.damaged += 1


# --- The files that the processes of a run recorded

FOLDER: Final = "tracking"
_JOB: Final = re.compile(JOB_ID)
_ATTEMPT: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_FILE: Final = re.compile(r"rank-([0-9]{1,9})\..{1,200}\.jsonl|polyaxon-([0-9]{1,9})")


First = Callable[[str], tuple[str, int]]
"""From the id of a job or element to that in the run's first job, and its job's number."""


class Recorded(NamedTuple):
    """What one process recorded: a file, or the folder of Polyaxon's client (`hpcdist.tracking.polyaxon`).

    ``job`` is the job or the element of an array; of a later job of the run the first one with this element.
    ``attempt``: which job of the run it was, how often the batch system had started that before, and the
    script its program. They sort by job, attempt and rank.
    """

    job: str
    attempt: tuple[int, ...]
    rank: int
    path: Path

    @property
    def is_polyaxon(self) -> bool:
        """Whether it is a folder of Polyaxon's own client."""
        return self.path.name.startswith("polyaxon-")


def recorded(directory: RunDirectory, losses: Losses, first: First | None = None) -> list[Recorded]:
    """Return what the processes of a run recorded, in this order; names that no process writes are ignored.

    Folders that cannot be read are added to ``losses``. ``first``: what `first_of` returned, if it is known.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    with directory.opened():
        return sorted(_in(directory.path / FOLDER, first or first_of(directory), losses))


def first_of(directory: RunDirectory) -> First:
    """Return a function from the id of a job or element to that in the run's first job, and its job's number.

    Later jobs of a run go on with what earlier ones began.
    """
    with suppress(ConfigError):
        jobs = rundir.read(directory).jobs
        numbers = {job.event_id: number for number, job in enumerate(jobs) if job.job and len(jobs) > 1}
        return partial(_first, numbers, jobs[0].event_id)
    return partial(_first, {}, "")


def _first(numbers: Mapping[str, int], first: str, job: str) -> tuple[str, int]:
    own, element = (job, "") if job in numbers else split_id(job)
    number = numbers.get(own, 0)
    return (f"{first}_{element}" if element else first, number) if number else (job, 0)


def _in(folder: Path, first: First, losses: Losses) -> Iterator[Recorded]:
    for job in _names(folder, _JOB, losses):
        name, number = first(job[0])
        for attempt in _names(folder / job[0], _ATTEMPT, losses):
            place = folder / job[0] / attempt[0]
            numbers = (number, int(attempt[1]), int(attempt[2]))
            for file in _names(place, _FILE, losses):
                yield Recorded(name, numbers, int(file[1] or file[2]), place / file[0])


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

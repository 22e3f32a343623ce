"""The files that the processes of a run record: ``tracking/JOB_ID/RESTART.TRY/rank-N.HOST.PID.jsonl``.

Polyaxon's own client has a folder ``polyaxon-N`` there. The ends show how far each attempt got.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError
from hpcdist.runs import attempt_files, rundir
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.events import JOB_ID
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers.job import JobState, split_id

# --- The lines of a file: JSON, one for each call of `hpcdist_tracking`

_PIECE: Final = 1 << 22
_LONGEST: Final = 1 << 24
"""The most bytes of a line; a longer one is damaged, and must not fill the memory."""

_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Artifact(msgspec.Struct, frozen=True):
    """A recorded file or folder: its path below the outputs, and its hash at that time."""

    kind: str
    path: str
    sha256: str
    bytes: int
    metrics: Mapping[str, float | str] = {}


class TrackedEntry(msgspec.Struct, frozen=True, gc=False):
    """One call: ``at`` in seconds since 1970; NaN and infinities are ``nan``, ``inf``, ``-inf`` as text."""

    at: float
    step: float | str | None = None
    metrics: Mapping[str, float | str] = {}
    params: Mapping[str, Any] = {}
    tags: tuple[str, ...] = ()
    artifact: Artifact | None = None


_decoder: Final = msgspec.json.Decoder(TrackedEntry)
_INVALID: Final = (
    msgspec.DecodeError,
    ValueError,
    RecursionError,
)  # the first is a ValueError from msgspec 0.21 on


def number(value: float | str) -> float | None:
    """Return a value of a metric as a number; None if it is another text."""
    return value if type(value) is float else _NOT_FINITE.get(str(value))


def numbers(metrics: Mapping[str, float | str]) -> dict[str, float]:
    """Return the metrics of an entry as numbers, without other texts."""
    found = ((name, number(value)) for name, value in metrics.items())
    return {name: value for name, value in found if value is not None}


class Losses:
    """What could not be read: ``damaged`` lines, and a sentence for each of the ``unread`` files."""

    def __init__(self) -> None:
        self.damaged = 0
        self.unread: list[str] = []

    def add(self, path: Path, error: OSError) -> None:
        """Add a file or folder that could not be read."""
        self.unread.append(unread(path, error))


def unread(path: Path, error: OSError) -> str:
    """Return the sentence of a file or folder that cannot be read."""
    return f"{error.filename or path} was not read: {error.strerror}"


class EntryReader:
    """Reads a file that may still grow; an incomplete line is left for later."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest = b""
        self.damaged = 0
        """The number of whole lines that are not entries."""

    def new(self) -> Iterator[TrackedEntry]:
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
                self._rest = b"?"  # so that the end of this line is not read as an entry

    def _decoded(self, lines: bytes) -> list[TrackedEntry]:
        try:
            return _decoder.decode_lines(lines)
        except _INVALID:
            return [*self._one_by_one(lines)]

    def _one_by_one(self, lines: bytes) -> Iterator[TrackedEntry]:
        for line in filter(None, lines.split(b"\n")):
            try:
                yield _decoder.decode(line)
            except _INVALID:
                self.damaged += 1


# --- Which files there are

FOLDER: Final = "tracking"
_JOB: Final = re.compile(JOB_ID)
_ATTEMPT: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_FILE: Final = re.compile(r"rank-([0-9]{1,9})\..{1,200}\.jsonl|polyaxon-([0-9]{1,9})")


FirstJob = Callable[[str], tuple[str, int]]
"""Maps the id of a job or element to the id in the run's first job, and the number of its job."""


class Recorded(NamedTuple):
    """What one process recorded: a file, or the folder of Polyaxon's client.

    ``job``: the job or the element of an array; for a later job, the run's first job with this element.
    ``attempt``: the number of the job in the run, of earlier starts by the batch system, and of earlier
    starts of the program by the script. They sort by job, attempt and rank.
    """

    job: str
    attempt: tuple[int, ...]
    rank: int
    path: Path

    @property
    def is_polyaxon(self) -> bool:
        """Whether it is a folder of Polyaxon's own client."""
        return self.path.name.startswith("polyaxon-")


def recorded(directory: RunDirectory, losses: Losses, first: FirstJob | None = None) -> list[Recorded]:
    """Return the records of a run's processes, in this order; other names are ignored.

    Folders that cannot be read are added to ``losses``. ``first``: what `first_job` returned, if it is known.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    with directory.opened():
        return sorted(_in(directory.path / FOLDER, first or first_job(directory), losses))


def first_job(directory: RunDirectory) -> FirstJob:
    """Return a function from the id of a job or element to the id in the run's first job, and its number.

    Later jobs of a run continue earlier ones.
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


def _in(folder: Path, first: FirstJob, losses: Losses) -> Iterator[Recorded]:
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
        losses.add(folder, error)


def entries(file: Recorded, losses: Losses) -> Iterator[TrackedEntry]:
    """Yield the entries of one process; files that cannot be read are added to ``losses``."""
    try:
        if file.is_polyaxon:
            yield from _polyaxon(file.path, losses)
            return
        with ownership.open_regular(file.path) as stream:
            reader = EntryReader(stream)
            yield from reader.new()
            losses.damaged += reader.damaged
    except OSError as error:
        losses.add(file.path, error)


def below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; links to folders are not followed."""
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)


def size(path: Path) -> int | None:
    """Return the bytes of a file, or of the files of a folder; None if it is not there."""
    with suppress(OSError, ValueError):
        if path.is_dir():
            return sum(file.stat().st_size for file in below(path))
        return path.stat().st_size
    return None


# --- What the client of Polyaxon 1 and 2 records without a server: ``polyaxon-N/runs/UUID/`` (traceml 1.5)

_MOST_BYTES: Final = 1 << 26
_LONGEST_EVENT: Final = 1 << 16


def _polyaxon(folder: Path, losses: Losses) -> Iterator[TrackedEntry]:
    """Yield each line of each metric as an entry, then params, tags and models, without damaged ones.

    The client has a file per metric, with lines ``step|timestamp|metric``; in its name a slash is ``__``.
    Params, tags and models without a step are written at the end of the program.
    """
    for run in _sorted(folder / "runs"):
        for file in _sorted(run / "events" / "metric"):
            if file.suffix == ".plx":
                for line in _events(file, losses):
                    entry = _value(file.stem, line)
                    if entry:
                        yield entry
                    else:
                        losses.damaged += line.endswith(b"\n")
        yield from _properties(run / "run.plx.json")
        yield from _models(run, folder, losses)


def _sorted(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _value(name: str, line: bytes) -> TrackedEntry | None:
    with suppress(ValueError, OverflowError):
        step, at, value = line.decode().strip("\n").split("|")
        return TrackedEntry(
            at=datetime.fromisoformat(at).timestamp(),
            step=float(step) if step else None,
            metrics={name: float(value)},
        )
    return None


def _events(file: Path, losses: Losses) -> Iterator[bytes]:
    """Yield the lines of a file of events, whose first line has the names of columns."""
    try:
        with ownership.open_regular(file) as stream:
            stream.readline(_LONGEST_EVENT)
            while line := stream.readline(_LONGEST_EVENT):
                yield line
    except OSError as error:
        losses.add(file, error)


def _models(run: Path, folder: Path, losses: Losses) -> Iterator[TrackedEntry]:
    """Yield the models, each with its path relative to the outputs of its job."""
    outputs = folder.parents[3] / "outputs"
    if "_" in folder.parents[1].name:  # an element of an array
        outputs /= "element"
    for path, summary in _model_paths(run, losses):
        place = Path(os.path.normpath(run / path))
        kept = os.path.relpath(place, outputs) if run in place.parents else str(place)
        yield TrackedEntry(at=0.0, artifact=Artifact("model", kept, "", size(place) or 0, _floats(summary)))


def _model_paths(run: Path, losses: Losses) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the summary of each model; a model with a step is a line of a file."""
    for each in filter(_is_model, _listed(run / "lineages.plx.json")):
        summary = each.get("summary") if isinstance(each.get("summary"), dict) else {}
        if isinstance(each.get("path"), str) and not summary.get("is_event"):
            yield each["path"], summary
    for file in _sorted(run / "events" / "model"):
        for line in _events(file, losses):
            with suppress(ValueError, RecursionError):
                data = json.loads(line.split(b"|", 2)[-1])
                if isinstance(data, dict) and isinstance(data.get("path"), str):
                    yield data["path"], {}


def _floats(summary: Mapping[str, Any]) -> dict[str, float | str]:
    found: dict[str, float | str] = {}
    for name, value in summary.items():
        with suppress(OverflowError):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = float(value)
    return found


def has_model(file: Recorded) -> bool:
    """Return whether Polyaxon's client logged a model, with a step (an event) or without."""
    return file.is_polyaxon and any(
        any((run / "events" / "model").glob("*")) or any(map(_is_model, _listed(run / "lineages.plx.json")))
        for run in _sorted(file.path / "runs")
    )


def _listed(file: Path) -> list[Any]:
    data = _json(file)
    return data if isinstance(data, list) else []


def _is_model(lineage: Any) -> bool:
    return isinstance(lineage, dict) and lineage.get("kind") == "model"


def _json(file: Path) -> Any:
    with suppress(OSError, ValueError, RecursionError):
        return json.loads(ownership.read(file, _MOST_BYTES))
    return None


def _properties(file: Path) -> Iterator[TrackedEntry]:
    data = _json(file)
    if isinstance(data, dict):
        params, tags = data.get("inputs"), data.get("tags")
        yield TrackedEntry(
            at=0.0,
            params=params if isinstance(params, dict) else {},
            tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        )


# --- How far each attempt got, and which steps the next one repeated
#
# Only the beginning and the end of each file are read, so a hundred attempts with long records take no
# longer than their listing.

_MOST_FILES: Final = 10_000
_ENDS: Final = (1 << 14, 1 << 20)
"""The bytes that are read at an end of a file: fewer, then more."""


class AttemptProgress(NamedTuple):
    """How far an attempt got; None is unknown.

    ``number``: its HPCDIST_ATTEMPT. ``step``: the last step that its first rank recorded. ``lost_steps``:
    the number of its steps that were repeated, since the next attempt with steps resumed before them.
    ``lost_seconds``: from the last change of a checkpoint file to its end, if it did not complete.
    """

    number: int | None = None
    step: float | None = None
    lost_steps: float | None = None
    lost_seconds: float | None = None


class StepRange(NamedTuple):
    """The first two different steps of an attempt, and its last one."""

    first: float
    second: float | None
    last: float

    @property
    def begins_after(self) -> float:
        """The step from which the attempt resumed: one recording interval before its first step."""
        ahead = self.second is not None and self.second > self.first
        return self.first - (self.second - self.first if ahead and self.second else 1)

    def done_again_by(self, follower: StepRange) -> float:
        """Return how many of these steps the next attempt repeated; 0 if it recorded only later ones.

        A program that saves at a signal may then record a step within an interval.
        """
        return max(0.0, self.last - follower.begins_after) if follower.first <= self.last else 0.0


def progress(directory: RunDirectory, attempts: Sequence[Attempt]) -> list[AttemptProgress]:
    """Return how far these attempts of a run got, in the order of their starts."""
    numbers = {(each.job, each.name): each for each in attempt_files.numbered(directory)}
    followers: dict[str, StepRange | None] = {}
    found: list[AttemptProgress] = []
    for attempt in reversed(attempts):
        element = split_id(attempt.job)[1]
        own = numbers.get((attempt.job, attempt.name))
        steps = _steps(directory.path / FOLDER / attempt.job / attempt.name)
        follower = followers.get(element)
        lost = steps.done_again_by(follower) if steps and follower else None
        since = _lost_seconds(directory, attempt, own, is_last=element not in followers) if own else None
        found.append(AttemptProgress(own and own.number, steps and steps.last, lost, since))
        followers[element] = steps or follower
    return found[::-1]


def _lost_seconds(directory: RunDirectory, attempt: Attempt, own: Numbered, *, is_last: bool) -> float | None:
    """Return the seconds from the last checkpoint, or from the start if it is later, to the end."""
    if attempt.state == JobState.COMPLETED.value or attempt.started is None or attempt.ended is None:
        return None
    saved = _newest(directory, attempt) if is_last else attempt_files.saved(directory, own)
    return None if saved is None else max(0.0, attempt.ended - max(saved, attempt.started))


def _newest(directory: RunDirectory, attempt: Attempt) -> float | None:
    """Return when a checkpoint file was last changed; None for no files, or too many."""
    top = directory.path / "checkpoints" / split_id(attempt.job)[1]
    times = [*islice(_times(top), _MOST_FILES + 1)]
    return max(times, default=None) if len(times) <= _MOST_FILES else None


def _times(folder: Path) -> Iterator[float]:
    with suppress(OSError), os.scandir(folder) as found:
        for each in found:
            if each.is_dir(follow_symlinks=False):
                yield from _times(Path(each.path))
            elif each.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # programs remove old checkpoints
                    yield each.stat(follow_symlinks=False).st_mtime


def _steps(folder: Path) -> StepRange | None:
    """Return the steps that the first rank of an attempt recorded."""
    ranks: dict[int, list[Path]] = {}
    for name in _names(folder, _FILE, Losses()):
        if name[1]:
            ranks.setdefault(int(name[1]), []).append(folder / name[0])
    files = ranks[min(ranks)] if ranks else []
    found = [steps for file in sorted(files) if (steps := _steps_of(file))]
    return found[0]._replace(last=max(each.last for each in found)) if found else None


def _steps_of(file: Path) -> StepRange | None:
    for length in _ENDS:
        with suppress(OSError), ownership.open_regular(file) as stream:
            head = _steps_in(stream.read(length).split(b"\n"))  # no more lines are parsed than needed
            first = next(head, None)
            second = next((step for step in head if step != first), None)
            stream.seek(max(0, stream.seek(0, 2) - length))
            last = next(_steps_in(reversed(stream.read(length).split(b"\n"))), None)
            if first is not None and last is not None:
                return StepRange(first, second, last)
    return None


def _steps_in(lines: Iterable[bytes]) -> Iterator[float]:
    """Yield the steps of these lines, without truncated and damaged lines."""
    for line in lines:
        with suppress(*_INVALID):
            entry = _decoder.decode(line)
            if entry.metrics and isinstance(entry.step, float) and math.isfinite(entry.step):
                yield entry.step

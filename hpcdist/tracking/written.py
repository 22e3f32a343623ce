"""Metrics in files that programs write anyway, where they lie in the outputs of a run.

``metrics.json``, ``metrics.jsonl``, ``metrics.csv`` and ``progress.csv``: Lightning's CSVLogger writes
``metrics.csv``, Ray and RLlib ``progress.csv``. Event files of TensorBoard (`hpcdist.tracking.tensorboard`).
Runs of MLflow (`hpcdist.tracking.mlflow`); those in ``mlruns-N`` are of rank N, for which the importer of
Azure ML provides. Other files in JSON are opened: a timeline of Horovod (`hpcdist.tracking.timeline`) and a
trace of PyTorch's profiler (`hpcdist.tracking.pytorch_profile`) may have any name.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs import events, packed
from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import mlflow, pytorch_profile, tensorboard, timeline
from hpcdist.tracking.entries import Entry

_STEPS: Final = ("step", "global_step", "training_iteration", "iteration", "epoch")
"""Which key of a line is its step: the first of these that it has."""

_DEPTH: Final = 4
_MOST_BYTES: Final = 1 << 30
_MOST_JSON: Final = 1 << 26
"""One value of JSON takes many times its size in memory; lines are read one by one."""

_LONGEST: Final = 1 << 20
_RANK: Final = re.compile(r"(?:^|/)mlruns-([0-9]{1,9})/")


class Written(NamedTuple):
    """What one file has, as if this rank had recorded it; files come in the order of their times."""

    job: str
    entries: Iterable[Entry]
    rank: int = 0


def found(directory: RunDirectory, unread: list[str]) -> Iterator[Written]:
    """Yield what these files have; what is no number in them is left out.

    What could not be read is appended to ``unread``, as sentences.
    """
    boards: dict[str, list[Path]] = {}
    for file, job, outputs in _places(directory, _may_have_metrics):
        if tensorboard.is_board(file.name):
            boards.setdefault(job, []).append(file)
            continue
        if file.name != mlflow.META:
            reader = _READERS.get(file.name)
            yield from (
                [Written(job, _entries(file, reader, unread))] if reader else _of_trace(file, job, unread)
            )
            continue
        try:
            yield from _runs(file, job, outputs)
        except FileNotFoundError:
            continue
        except OSError as error:
            unread.append(f"{file} was not read: {error.strerror}")
    try:
        for job, several in boards.items():
            yield from (Written(job, entries) for entries in tensorboard.read(several, directory.outputs))
    except ImportError as error:
        unread.append(f"{tensorboard.MISSING} ({error})")


def with_others(directory: RunDirectory) -> Iterator[Written]:
    """Yield what those files have that may have more than metrics: models, params and tags.

    Raises:
        OSError: if one cannot be read.
    """
    for place in _places(directory, lambda name: name == mlflow.META):
        yield from _runs(*place)


def _runs(file: Path, job: str, outputs: Path) -> Iterator[Written]:
    """Yield what the runs of an experiment of MLflow recorded."""
    of_rank = _RANK.search(str(file.relative_to(outputs)))
    rank = int(of_rank[1]) if of_rank else 0
    yield from (Written(job, entries, rank) for entries in mlflow.read(file.parent, outputs))


def _places(directory: RunDirectory, wanted: Callable[[str], bool]) -> Iterator[tuple[Path, str, Path]]:
    """Yield each file with its job or element and the outputs of that, in the order of their times."""
    outputs, started = directory.outputs, packed.of_programs(directory)
    of_run = events.last_started(event for event in started if "_" not in event.job_id)
    files = () if outputs.is_symlink() else _files(outputs, _DEPTH, wanted)
    for _, file in sorted(files):
        top = file.relative_to(outputs).parts[0]
        element = events.last_started(started, top)
        yield file, element or of_run, outputs / top if element else outputs


def _files(folder: Path, depth: int, wanted: Callable[[str], bool]) -> Iterator[tuple[float, Path]]:
    """Yield the files of such names with their times; links are not followed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and depth > 1:
                yield from _files(Path(entry.path), depth - 1, wanted)
            elif wanted(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # programs remove old checkpoints
                    yield entry.stat().st_mtime, Path(entry.path)


def _may_have_metrics(name: str) -> bool:
    is_other = name in _READERS or name.endswith(".json") or name == mlflow.META
    return is_other or tensorboard.is_board(name) or pytorch_profile.is_packed(name)


def _entries(file: Path, read: _Read, unread: list[str]) -> Iterator[Entry]:
    """Yield what a file of numbers has."""
    with _remarked(file, unread), untrusted.open_regular(file) as stream:
        yield from _numbers(read, stream)


def _of_trace(file: Path, job: str, unread: list[str]) -> Iterator[Written]:
    """Yield what a timeline of Horovod or a trace of PyTorch has; ``unread`` says where one is cut short."""
    with _remarked(file, unread), untrusted.open_regular(file) as stream:
        written_at = os.fstat(stream.fileno()).st_mtime
        if metrics := timeline.read(stream):
            if stream.read(1):
                unread.append(f"{file} was read to its first {timeline.MOST_BYTES >> 20} MiB")
            yield Written(job, [Entry(at=written_at, metrics=metrics)])
            return
        stream.seek(0)
        if profile := pytorch_profile.read(stream):
            entry = Entry(at=written_at, step=profile.step, metrics=profile.metrics)
            yield Written(job, [entry], profile.rank)


@contextmanager
def _remarked(file: Path, unread: list[str]) -> Iterator[None]:
    """Append to ``unread`` why a file was not read; programs remove old ones."""
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as error:
        unread.append(f"{file} was not read: {error.strerror}")


def _numbers(reader: _Read, stream: BinaryIO) -> Iterator[Entry]:
    """Yield what has numbers; what comes after damage is left out, but not other lines of JSON.

    Raises:
        OSError: if it cannot be read, or is too large.
    """
    size, most = os.fstat(stream.fileno()).st_size, _MOST_BYTES if reader is not _of_json else _MOST_JSON
    if size > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB")
    lines = (line.decode("utf-8", "replace") for line in iter(lambda: stream.readline(_LONGEST), b""))
    with suppress(ValueError, RecursionError, csv.Error):
        yield from filter(None, map(_entry, reader(lines)))


def _entry(row: object) -> Entry | None:
    if not isinstance(row, Mapping):
        return None
    numbers = {str(name): number for name, value in row.items() if (number := _number(value)) is not None}
    step = next((numbers.pop(name) for name in _STEPS if name in numbers), None)
    return Entry(at=0.0, step=step, metrics=numbers) if numbers else None


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) or value is None else float(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _of_json(lines: Iterable[str]) -> Iterable[object]:
    data = json.loads("".join(lines))
    return data if isinstance(data, list) else [data]


def _of_lines(lines: Iterable[str]) -> Iterator[object]:
    for line in lines:
        with suppress(ValueError, RecursionError):
            yield json.loads(line)


def _of_csv(lines: Iterable[str]) -> Iterable[object]:
    return csv.DictReader(lines)


_Read = Callable[[Iterable[str]], Iterable[object]]
_READERS: Final[Mapping[str, _Read]] = {
    "metrics.json": _of_json,
    "metrics.jsonl": _of_lines,
    "metrics.csv": _of_csv,
    "progress.csv": _of_csv,
}

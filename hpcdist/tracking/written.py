"""Metrics in files that programs write anyway.

``metrics.json``, ``metrics.jsonl``, ``metrics.csv`` and ``progress.csv`` are read where they lie in the
outputs of a run. Lightning's CSVLogger writes ``metrics.csv``, Ray and RLlib ``progress.csv``.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs import events
from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking.entries import Entry

_STEPS: Final = ("step", "global_step", "training_iteration", "iteration", "epoch")
"""Which key of a line is its step: the first of these that it has."""

_DEPTH: Final = 4
_MOST_BYTES: Final = 1 << 30


class Written(NamedTuple):
    """What one file has, as if rank 0 had recorded it; files come in the order of their times."""

    job: str
    entries: list[Entry]


def found(directory: RunDirectory) -> Iterator[Written]:
    """Yield what these files have; what is no number in them is left out."""
    outputs, started = directory.outputs, directory.events()
    of_run = events.last_started(event for event in started if "_" not in event.job_id)
    files = () if outputs.is_symlink() else _files(outputs, _DEPTH)
    for file in sorted(files, key=lambda file: file.stat().st_mtime):
        job = events.last_started(started, file.relative_to(outputs).parts[0]) or of_run
        with suppress(OSError, ValueError, RecursionError, csv.Error):
            text = untrusted.read(file, _MOST_BYTES).decode("utf-8", "replace")
            entries = [*filter(None, map(_entry, _READERS[file.name](text)))]
            yield Written(job, entries)


def _files(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the files of these names; links are not followed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and depth > 1:
                yield from _files(Path(entry.path), depth - 1)
            elif entry.name in _READERS and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


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


def _of_json(text: str) -> Iterable[object]:
    data = json.loads(text)
    return data if isinstance(data, list) else [data]


def _of_lines(text: str) -> Iterator[object]:
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            yield json.loads(line)


def _of_csv(text: str) -> Iterable[object]:
    return csv.DictReader(text.splitlines())


_READERS: Final[Mapping[str, Callable[[str], Iterable[object]]]] = {
    "metrics.json": _of_json,
    "metrics.jsonl": _of_lines,
    "metrics.csv": _of_csv,
    "progress.csv": _of_csv,
}

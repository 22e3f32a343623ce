"""What each rank of an attempt recorded last: the ends of the files of `hpcdist_tracking`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory

_FOLDER: Final = "tracking"
_FILE: Final = re.compile(r"rank-([0-9]{1,9})\.([A-Za-z0-9_-]{1,200})\.[0-9]{1,9}\.jsonl")
_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 4 << 10
_MOST_BYTES: Final = 64 << 10
"""What is read of the files of all ranks together, and of one: some hundred lines are enough."""


class Point(NamedTuple):
    """One call: its time in seconds since 1970 by the clock of its node, its step, its metrics."""

    at: float
    step: float | None
    metrics: Mapping[str, float]


class Rank(NamedTuple):
    """What one rank recorded last, in the order of its calls; ``host`` without its domain."""

    rank: int
    host: str
    points: tuple[Point, ...]


def read(directory: RunDirectory, attempt: Numbered) -> tuple[Rank, ...]:
    """Return the ranks that recorded anything in an attempt; what cannot be read is left out."""
    files = _files(directory.path / _FOLDER / attempt.job / attempt.name) if attempt.name else {}
    size = min(_MOST_BYTES, max(_LEAST_BYTES, _BYTES // max(1, len(files))))
    found = (Rank(rank, host, tuple(_points(path, size))) for rank, (host, path) in sorted(files.items()))
    return tuple(rank for rank in found if rank.points)


def _files(folder: Path) -> dict[int, tuple[str, Path]]:
    """Return the file of each rank with its host; of several processes of a rank that with most in it."""
    ranks: dict[int, list[tuple[str, Path]]] = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if name := _FILE.fullmatch(entry.name):
                ranks.setdefault(int(name[1]), []).append((name[2], Path(entry.path)))
    return {rank: files[0] if len(files) == 1 else max(files, key=_size) for rank, files in ranks.items()}


def _size(file: tuple[str, Path]) -> int:
    with suppress(OSError):
        return file[1].lstat().st_size
    return 0


def _points(file: Path, size: int) -> Sequence[Point]:
    with suppress(OSError), untrusted.open_regular(file) as stream:
        begin = stream.seek(max(0, stream.seek(0, 2) - size))
        text = stream.read(size)
        return _recorded(text[text.find(b"\n") + 1 :] if begin else text)
    return ()


def _recorded(text: bytes) -> Sequence[Point]:
    """Return what these lines have: all at once where each is as `hpcdist_tracking` writes them."""
    decode, error = _decoder()
    try:
        lines = decode(text)
    except (error, RecursionError):
        return [*_one_by_one(text.split(b"\n"))]
    return [
        Point(
            line.at, line.step, line.metrics if all(line.metrics.values()) else _other_than_zero(line.metrics)
        )
        for line in lines
        if line.metrics is not None and line.at is not None
    ]


def _one_by_one(lines: Iterable[bytes]) -> Iterator[Point]:
    """Yield what these lines have; one that is cut or damaged has nothing."""
    for line in filter(None, lines):
        with suppress(ValueError, RecursionError, AttributeError):
            entry = json.loads(line)
            metrics, at = entry.get("metrics"), _number(entry.get("at"))
            if isinstance(metrics, dict) and at is not None:
                numbers = {name: number for name, value in metrics.items() if (number := _number(value))}
                yield Point(at, _number(entry.get("step")), numbers)


def _other_than_zero(metrics: Mapping[str, float]) -> Mapping[str, float]:
    return {name: value for name, value in metrics.items() if value}


@cache
def _decoder() -> tuple[Callable[[bytes], Any], type[Exception]]:
    """Return what decodes all lines at once, in a tenth of the time, and its error; numbers are finite."""
    import msgspec  # for runs whose ranks recorded anything

    class Line(msgspec.Struct, gc=False):
        at: float | None = None
        step: float | None = None
        metrics: dict[str, float] | None = None

    return msgspec.json.Decoder(Line).decode_lines, msgspec.DecodeError


def _number(value: Any) -> float | None:
    if type(value) is float:
        return value if isfinite(value) else None
    with suppress(OverflowError):
        return float(value) if type(value) is int else None
    return None

"""Every value of every metric as a line of CSV: run, job, metric, rank, step, time, value."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO, Final

from hpcdist.export.files import replacing
from hpcdist.export.items import Item

COLUMNS: Final = ("run", "job", "metric", "rank", "step", "time", "value")


def save(items: Iterable[Item], path: Path) -> int:
    """Write the values of these into a file, as `replacing` does; return how many.

    Raises:
        OSError: if it cannot be written, or a run cannot be read.
    """
    with replacing(path) as stream:
        return write(items, stream)


def write(items: Iterable[Item], stream: BinaryIO) -> int:
    """Write the values of these and return how many; a time is ISO 8601 in UTC, empty where it is unknown.

    Raises:
        OSError: if it cannot be written.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")
    lines, count = csv.writer(text, lineterminator="\n"), 0
    lines.writerow(COLUMNS)
    for item in items:
        for name, step, at, value in item.points():
            lines.writerow((item.name, item.job, *name, f"{step:.15g}", moment(at), repr(value)))
            count += 1
    text.flush()
    text.detach()
    return count


def moment(seconds: float) -> str:
    """Return a time in ISO 8601 in UTC; empty if it is unknown, or no time of a calendar."""
    try:
        at = datetime.fromtimestamp(seconds, timezone.utc) if seconds else None
    except (ValueError, OverflowError, OSError):  # of a damaged line, or a clock
        return ""
    return at.isoformat(timespec="milliseconds") if at else ""

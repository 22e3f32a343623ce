"""Results on stdout: tables, JSON, times and sizes. Rich is imported on a terminal only."""

from __future__ import annotations

import errno
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import click

from hpcdist.base.errors import Problem, bytes_text, dotted, span_text
from hpcdist.cli.messages import printable

_WIDEST = 80
"""Longer cells do not widen their column."""


def as_json(value: object) -> None:
    """Print a value as one JSON document; structs become objects."""
    import msgspec

    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_writable(msgspec.to_builtins(value)))
    click.echo(msgspec.json.format(text, indent=2))


def _writable(value: object) -> object:
    """Return the data with characters escaped that UTF-8 cannot encode, as file names may contain."""
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_writable, value)]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def number(value: float) -> float | str:
    """Return a number for JSON, which has no NaN and no infinity: these are text."""
    return value if math.isfinite(value) else str(value)


def flush() -> None:
    """Flush stdout.

    Raises:
        OSError: when it cannot be written or is closed.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sys.stdout.flush()


def problems_as_json(problems: Iterable[Problem]) -> None:
    """Print problems with their places as one JSON document."""
    as_json(
        [
            {
                "severity": problem.severity,
                "file": problem.place and problem.place.file,
                "line": problem.place and problem.place.line,
                "column": problem.place and problem.place.column,
                "path": dotted(problem.path),
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in problems
        ]
    )


def on_terminal() -> bool:
    """Return whether the output is a terminal."""
    return bool(sys.stdout and sys.stdout.isatty())


def value(values: Mapping[str, Any], name: str) -> str:
    """Return a value for a table, ``-`` for none."""
    found = values.get(name, "-")
    return f"{found:.6g}" if isinstance(found, float) else str(found)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, without a header if ``head`` is empty; plain text unless on a terminal."""
    head = [*map(printable, head)]
    shown = [row if "".join(row).isprintable() else [*map(printable, row)] for row in rows]
    if on_terminal():
        _rich(head, shown)
    else:
        click.echo("".join(f"{line}\n" for line in lines([head, *shown] if head else shown)), nl=False)


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines with aligned columns."""
    columns = zip_longest(*rows, fillvalue="")
    widths = [min(_WIDEST, max(map(len, column))) for column in columns]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _rich(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    style = "" if os.environ.get("NO_COLOR") else "bold"  # Rich itself keeps bold under NO_COLOR
    drawn = Table(box=None, pad_edge=False, show_header=bool(head), header_style=style)
    found = [*rows]
    for title, _ in zip_longest(head, found[0] if found else (), fillvalue=""):
        drawn.add_column(Text(title), overflow="fold")
    for row in found:
        drawn.add_row(*(Text(cell) for cell in row))
    Console().print(drawn)


# --- Times and sizes as people write and read them: ``30d``, ``2026-11-01``, ``1.5 MiB``


def moment(text: str, now: Callable[[], float] = time.time) -> float:
    """Read a time in the past, in seconds since 1970: ``30d`` or ``12h`` ago, or a day or time of ISO 8601.

    A time without a zone is local.

    Raises:
        BadParameter: if it is neither.
    """
    from hpcdist.base.units import Walltime  # imports msgspec, which `list` needs for nothing else

    try:
        return now() - Walltime.parse(text).seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is no time; write a span such as 30d or 12h, or a day such as 2026-11-01."
        raise click.BadParameter(message) from None


def span(seconds: float) -> str:
    """Return a duration in its largest unit: ``3d``; of a time in the future ``0s``."""
    return span_text(seconds)


@lru_cache(4096)  # trials of a search take times of the same few seconds
def clock(seconds: float) -> str:
    """Return a duration as Slurm writes it: ``00:01:30``, ``2-00:00:00``."""
    from hpcdist.base.units import Walltime  # as in `moment`

    return str(Walltime(round(seconds)))


def age(at: float, now: Callable[[], float] = time.time) -> str:
    """Return how long ago it was, in seconds since 1970."""
    return span(now() - at)


def size(count: int) -> str:
    """Return a number of bytes: ``512 B``, ``1.5 MiB``."""
    return bytes_text(count, "B")

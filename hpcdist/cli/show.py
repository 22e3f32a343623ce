"""Results on stdout: tables and JSON. Rich is imported on a terminal only."""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import click

from hpcdist.base.errors import Problem, dotted
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

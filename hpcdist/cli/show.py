"""Showing results on stdout: tables and JSON. Rich is imported on a terminal only."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import click

from hpcdist.cli.tell import printable
from hpcdist.errors import Problem, dotted

_WIDEST = 80
"""A longer cell does not widen its column."""


def as_json(value: object) -> None:
    """Print one JSON document; structs are objects with their fields."""
    import msgspec

    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_writable(msgspec.to_builtins(value)))
    click.echo(msgspec.json.format(text, indent=2))


def _writable(value: object) -> object:
    """Return plain data whose texts are UTF-8: the names of files need not be."""
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_writable, value)]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def flush() -> None:
    """Write what was printed so far.

    Raises:
        OSError: when it cannot be written, or there is no standard output.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sys.stdout.flush()


def problems_as_json(problems: Iterable[Problem]) -> None:
    """Print problems, each with its place, as one JSON document."""
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, an empty ``head`` for none: for a terminal in colours, else in aligned plain text."""
    shown = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout and sys.stdout.isatty():
        _rich(head, shown)
    else:
        for line in lines([head, *shown] if head else shown):
            click.echo(line)


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines with aligned columns."""
    columns = zip_longest(*rows, fillvalue="")
    widths = [min(_WIDEST, max(map(len, column))) for column in columns]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _rich(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    style = "" if os.environ.get("NO_COLOR") else "bold"  # which NO_COLOR leaves to Rich's users
    drawn = Table(box=None, pad_edge=False, show_header=bool(head), header_style=style)
    found = [*rows]
    for title, _ in zip_longest(head, found[0] if found else (), fillvalue=""):
        drawn.add_column(Text(title), overflow="fold")
    for row in found:
        drawn.add_row(*(Text(cell) for cell in row))
    Console().print(drawn)

"""Values as tables of two columns, whatever their texts have in them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from hpcdist.experiment.writing import printable

if TYPE_CHECKING:
    from rich.table import Table

Rows = Iterable[tuple[str, str]]


def table(rows: Rows) -> Table:
    """Return a table for a terminal: texts are neither markup nor control sequences."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(show_header=False, box=None)
    for title, text in rows:
        shown.add_row(Text(title, style="bold"), Text(printable(text)))
    return shown


def html(rows: Rows) -> str:
    """Return a table for a notebook: texts are no HTML."""
    cells = (f"<tr><th>{escape(title)}</th><td>{escape(text)}</td></tr>" for title, text in rows)
    return f"<table>{''.join(cells)}</table>"


def folded(title: str, text: str) -> str:
    """Return a text for a notebook that is shown when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"

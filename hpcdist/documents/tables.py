"""Tables of comma-separated values, with the place of each cell."""

from __future__ import annotations

import csv
import io
from typing import Any

from hpcdist.documents import scalars
from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import ConfigError, Place, Problem


def columns(text: str, file: str) -> Map:
    """Return the columns of a table by their names, which are its first line.

    A column is one of numbers if all of its cells are, else one of texts. Empty lines have no cells.

    Raises:
        ConfigError: if a line has another number of cells, or two columns have one name.
    """
    lines, at = [], 1
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        for cells in reader:
            lines.append((Place(file, at, 1), cells))
            at = reader.line_num + 1
    except csv.Error as error:
        raise ConfigError(Problem(f"this is no table: {error}", place=Place(file, at, 1))) from None
    (head, names), *rows = [line for line in lines if line[1]] or [(Place(file, 1, 1), [])]
    found = Map(place=head)
    for name in names:
        if name in found:
            raise ConfigError(Problem(f"two columns have the name {name!r}", place=head))
        found.put(name, Seq(place=head), head)
    for place, cells in rows:
        if len(cells) != len(names):
            message = f"this line has {len(cells)} values, and there are {len(names)} columns"
            raise ConfigError(Problem(message, place=place))
        for name, cell in zip(names, cells, strict=True):
            found[name].add(cell, place)
    return found.mapped(lambda _, column: _typed(column))


def _typed(column: Seq) -> Seq:
    values = [_number(cell) for cell in column]
    if None in values:
        return column
    typed = Seq(place=column.place)
    for at, (value, text) in enumerate(zip(values, column, strict=True)):
        typed.add(value, column.place_of(at), text.strip())
    return typed


def _number(cell: str) -> Any:
    try:
        value = scalars.resolve(cell.strip())
    except ValueError:
        return None
    return value if isinstance(value, (int, float)) else None

"""Files that a job file names, such as the component of an operation, or a table of params.

A name begins at the folder of the job file, or else at the root of its tree, as in a repository. A job file
may come from anyone, so what it names has to be a regular file of at most 1 MiB in the same tree of folders,
also after symbolic links are resolved.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any, Final

from hpcdist import importers
from hpcdist.base import ownership, source, tree
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.base.tree import Document, Map, Seq

# --- Tables of comma-separated values, with the place of each cell


def columns(text: str, file: str) -> Map:
    """Return the columns of a table by their names, which are its first line.

    A column has numbers if all of its cells are numbers, else texts. Empty lines have no cells.

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
        value = tree.resolve(cell.strip())
    except ValueError:
        return None
    return value if isinstance(value, (int, float)) else None


# --- Files that a job file names, such as the component of an operation, or a table of params

_OUTSIDE: Final = "copy it there, or submit from a directory that contains both"


def with_named_file(document: Document, form: str = "") -> Document:
    """Return the document with the contents of the file that it names, the document itself if it names none.

    Its text has the lines of that file as comments at its end, so that a record of it is complete.

    Raises:
        ConfigError: when that file cannot be read, or has problems; or no importer has the name ``form``.
    """
    foreign = importers.form_of(document.data, form)
    named = foreign.file_named_in(document.data)
    if named is None:
        return document
    path, name = named
    folder = Path() if document.file.startswith("<") else Path(document.file).parent
    root = _root(folder.resolve())
    try:
        files = [folder / name, Path(os.path.relpath(root)) / name]
        file = next((file for file in files if file.exists()), files[0])
        label = os.path.normpath(file)
        text = source.decode(_contents(file, root), label)
    except (OSError, ValueError, RuntimeError) as error:  # the last for a circle of links, until Python 3.12
        message, hint = _reason(error)
        raise ConfigError(
            document.locate(Problem(f"{name!r} cannot be read: {message}", path, hint))
        ) from None
    content = columns(text, label) if label.endswith(".csv") else source.parse(text, label).data
    data = foreign.with_named_file(document.data, content)
    comments = "".join(f"# {line}\n" for line in (f"{label}:", *text.splitlines()))
    return document._replace(data=data, text=f"{document.text.rstrip()}\n{comments}")


def _contents(file: Path, root: Path) -> bytes:
    """Read a file below the root of a tree.

    Raises:
        OSError: as `untrusted.read` does, and for a file elsewhere.
    """
    real = file.resolve()
    if not real.is_relative_to(root):
        raise PermissionError(0, f"it is not in {root}")
    return ownership.read(real, source.MAX_BYTES)


def _root(folder: Path) -> Path:
    """Return the git work tree of a folder, else the working directory above it, else the folder itself."""
    tree = next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
    here = Path.cwd()
    return tree or (here if folder.is_relative_to(here) else folder)


def _reason(error: Exception) -> tuple[str, str]:
    message = getattr(error, "strerror", None) or str(error)
    if isinstance(error, PermissionError) and not error.errno:
        return message, _OUTSIDE
    if isinstance(error, FileNotFoundError):
        return (
            "there is no such file",
            "write its path, beginning at the folder of this file or of its repository",
        )
    return message, ""

"""Arguments of a program: checked, as values of an experiment file, and shown as tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from hpcdist.base.errors import ConfigError, Path, Problem
from hpcdist.experiment.writing import printable

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")

# --- Arguments, whose types only type checkers know; each function raises ConfigError for another type


def mapping(value: object, name: str = "") -> Mapping[str, Any]:
    """Return the argument of this name, a dict with texts as its keys."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise _wrong(value, name, "dict with names as its keys", "write {'NAME': VALUE}")


def count(value: object, name: str) -> int:
    """Return the argument of this name, a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong(value, name, "whole number", "write a number such as 2")


def number(value: object, name: str) -> float:
    """Return the argument of this name, a number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:  # noqa: PLR0124 - NaN
        return value
    raise _wrong(value, name, "number", "write a number such as 60")


def text_of(path: object, name: str) -> str:
    """Return the argument of this name, a path or a name."""
    if isinstance(path, str | os.PathLike):
        return os.fsdecode(path)
    raise _wrong(path, name, "path", "write a text, or a pathlib.Path")


def site_of(site: object) -> str | None:
    """Return the argument ``site``, the name or the path of one, or None."""
    return None if site is None else text_of(site, "site")


def all_of(kind: type[T], values: object, name: str) -> list[T]:
    """Return the argument of this name, a sequence of values of this type."""
    found: list[Any] = [*values] if isinstance(values, Iterable) else [values]
    wrong = [value for value in found if not isinstance(value, kind)]
    if isinstance(values, Iterable) and not wrong:
        return found
    hint = f"write a list of values of the type {kind.__name__}"
    raise ConfigError(Problem(f"{(wrong or found)[0]!r} does not belong here", (name,), hint))


def _wrong(value: object, name: str, kind: str, hint: str) -> ConfigError:
    return ConfigError(Problem(f"{value!r} is no {kind}", (name,) if name else (), hint))


# --- Values as a file could have them


def plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data as a file could have them: tuples are lists.

    Raises:
        ConfigError: if a file cannot have a value, such as an object or infinity.
    """
    return {name: json.loads(_text(name, value)) for name, value in mapping(data).items()}


def texts(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return names and values as ``-p`` and ``--set`` take them; a text stays one, whatever it looks like.

    Raises:
        ConfigError: as `plain`.
    """
    return tuple((name, _text(name, value)) for name, value in mapping(values).items())


def _text(name: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"a value that no experiment file can have: {error}"
        raise ConfigError(Problem(message, (name,), "write a number, a text, a list or a dict")) from None


def joined(data: Mapping[str, Any], more: Mapping[str, Any], path: Path = ()) -> dict[str, Any]:
    """Return the keys of both; sections that are in both are joined.

    Raises:
        ConfigError: if both have a value of one key.
    """
    found = dict(data)
    for key, value in more.items():
        there = found.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            found[key] = joined(there, value, (*path, key))
        elif key in found:
            hint = "one of the other arguments has set it already; leave one of both out"
            raise ConfigError(Problem("it is given twice", (*path, key), hint))
        else:
            found[key] = value
    return found


# --- Tables of two columns, whatever their texts have in them

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

"""Values of a program as those of an experiment file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from hpcdist.errors import ConfigError, Path, Problem

T = TypeVar("T")


def plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data as a file could have them: tuples are lists.

    Raises:
        ConfigError: if a value is none that a file can have, such as an object or infinity.
    """
    return {name: json.loads(_text(name, value)) for name, value in mapping(data).items()}


def texts(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return names and values as ``-p`` and ``--set`` take them; a text stays one, whatever it looks like.

    Raises:
        ConfigError: as `plain`.
    """
    return tuple((name, _text(name, value)) for name, value in mapping(values).items())


def mapping(value: object, name: str = "") -> Mapping[str, Any]:
    """Return the argument of this name, of which type checkers know that it is a dict.

    Raises:
        ConfigError: if it is none, or a key of it is no text.
    """
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    message = f"{value!r} is no dict with names as its keys"
    raise ConfigError(Problem(message, (name,) if name else (), "write {'NAME': VALUE}"))


def count(value: object, name: str) -> int:
    """Return the argument of this name, of which type checkers know that it is a whole number.

    Raises:
        ConfigError: if it is none.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ConfigError(Problem(f"{value!r} is no whole number", (name,), "write a number such as 2"))


def text_of(path: object, name: str) -> str:
    """Return the argument of this name, of which type checkers know that it is a path or a name.

    Raises:
        ConfigError: if it is none.
    """
    if isinstance(path, str | os.PathLike):
        return os.fsdecode(path)
    raise ConfigError(Problem(f"{path!r} is no path", (name,), "write a text, or a pathlib.Path"))


def site_of(site: object) -> str | None:
    """Return the argument ``site``, the name or the path of one; None for none.

    Raises:
        ConfigError: as `text_of`.
    """
    return None if site is None else text_of(site, "site")


def number(value: object, name: str) -> float:
    """Return the argument of this name, of which type checkers know that it is a number.

    Raises:
        ConfigError: if it is none.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:  # noqa: PLR0124 - NaN
        return value
    raise ConfigError(Problem(f"{value!r} is no number", (name,), "write a number such as 60"))


def all_of(kind: type[T], values: object, name: str) -> list[T]:
    """Return the argument of this name, of which type checkers know that all its values are of this type.

    Raises:
        ConfigError: if one is not, or it has none.
    """
    found: list[Any] = [*values] if isinstance(values, Iterable) else [values]
    wrong = [value for value in found if not isinstance(value, kind)]
    if isinstance(values, Iterable) and not wrong:
        return found
    hint = f"write a list of values of the type {kind.__name__}"
    raise ConfigError(Problem(f"{(wrong or found)[0]!r} does not belong here", (name,), hint))


def _text(name: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"a value that no experiment file can have: {error}"
        raise ConfigError(Problem(message, (name,), "write a number, a text, a list or a dict")) from None


def joined(data: Mapping[str, Any], more: Mapping[str, Any], path: Path = ()) -> dict[str, Any]:
    """Return the keys of both, of sections that both have those of both.

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

"""Words of a shell: the one place that knows how text becomes safe in a script.

A value is quoted unless it is ``Raw``. There are two clocks only: what the batch shell expands is
``Raw``; what a task expands lies inside one quoted word.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RUN_NAME = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_]*")


class Raw(str):
    """Text that is shell already and is written as it stands; never made from a user's value."""

    __slots__ = ()


def quote(value: object) -> Raw:
    """Return one shell word that bash reads back as ``str(value)``; ``Raw`` passes unchanged.

    Raises:
        ValueError: for a NUL byte, which no argument or variable of a process can hold.
    """
    if isinstance(value, Raw):
        return value
    text = str(value)
    if "\0" in text:
        raise ValueError("a NUL byte cannot be passed to a program")
    return Raw(shlex.quote(text))


def join(words: Iterable[object]) -> Raw:
    """Return the words as one command line, each quoted once."""
    return Raw(" ".join(quote(word) for word in words))


def slug(text: str) -> str:
    """Return a name that every scheduler, file system and shell takes unquoted."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-") or "experiment"

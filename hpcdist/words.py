"""Words of a shell: the one place that knows how text becomes safe in a script.

A value is quoted unless it is ``Raw``. There are two clocks only: what the batch shell expands is
``Raw``; what a task expands lies inside one quoted word.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_THE_USERS = re.compile(r"HPCDIST_.*|UID|EUID|PPID|BASHOPTS|BASH_VERSINFO|SHELLOPTS", re.DOTALL)
_LONGEST = 235
RUN_NAME = re.compile(rf"[A-Za-z0-9_][-A-Za-z0-9_]{{0,{_LONGEST - 1}}}")
"""What jobs, runs and sites may be called; names of files, which hold more, end at 255 bytes."""
RUN_NAME_FORM = f"use up to {_LONGEST} letters, digits, - and _"

_NOT_PLAIN = re.compile(r"[\n;#]|\\\Z|\|\||(?<![&<>])&(?![&>])")


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


def in_double_quotes(text: str) -> Raw:
    """Return text as it stands between double quotes, where bash reads it back unchanged.

    Raises:
        ValueError: for a NUL byte, as `quote`.
    """
    quote(text)
    return Raw(re.sub(r'([\\"$`])', r"\\\1", text))


def join(words: Iterable[object]) -> Raw:
    """Return the words as one command line, each quoted once."""
    return Raw(" ".join(quote(word) for word in words))


def misnomer(name: str) -> str:
    """Return what is wrong with the name of a user's variable, nothing for a good one."""
    if not VARIABLE_NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a variable"
    if _NOT_THE_USERS.fullmatch(name):
        return f"the variable {name} is {'hpcdist' if name.startswith('HPCDIST_') else 'bash'}'s own"
    return ""


def chained(commands: Iterable[str]) -> str:
    """Return one command that runs each until one fails, as ``&&`` does.

    Plain ones stand as they are; one with several lines, a comment, ``;``, ``||`` or ``&`` becomes a group.
    """
    said = [command for command in commands if not _is_blank(command)]
    return said[0] if len(said) == 1 else " && ".join(map(_grouped, said))


def _is_blank(command: str) -> bool:
    return all(line.lstrip()[:1] in ("", "#") for line in command.split("\n"))


def _grouped(command: str) -> str:
    text = command.rstrip("\n")
    if not _NOT_PLAIN.search(text):
        return text
    return f"{{ {text}\n\n}}" if text.endswith("\\") else f"{{ {text}\n}}"


def slug(text: str) -> str:
    """Return a name that every scheduler, file system and shell takes unquoted."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:_LONGEST] or "experiment"

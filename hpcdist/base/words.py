"""Words of a shell: the only module that quotes text for a script.

A value is quoted unless it is ``Raw``. Variables are expanded at two times only: what the batch shell expands
is ``Raw``; what a task expands is inside one quoted word.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = re.compile(r"HPCDIST_.*|UID|EUID|PPID|BASHOPTS|BASH_VERSINFO|SHELLOPTS", re.DOTALL)
_LONGEST = 235
RUN_NAME = re.compile(rf"[A-Za-z0-9_][-A-Za-z0-9_]{{0,{_LONGEST - 1}}}")
"""Valid names of jobs, runs and sites; names of files, which add a suffix, end at 255 bytes."""
RUN_NAME_FORM = f"use up to {_LONGEST} letters, digits, - and _"

_NEEDS_GROUP = re.compile(r"[\n;#]|\\\Z|\|\||(?<![&<>])&(?![&>])")


class Raw(str):
    """Text that is shell code already and is written unquoted; never made from a user's value."""

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
    quoted = shlex.quote(text)
    # `NAME==value` reads as a comparison, and ShellCheck refuses it (SC1097).
    return Raw(f"'{text}'" if quoted == text and text.startswith("=") else quoted)


def in_double_quotes(text: str) -> Raw:
    """Return text escaped for use between double quotes, where bash reads it back unchanged.

    Raises:
        ValueError: for a NUL byte, as `quote`.
    """
    quote(text)
    return Raw(re.sub(r'([\\"$`])', r"\\\1", text))


def join(words: Iterable[object]) -> Raw:
    """Return the words as one command line, each quoted once."""
    return Raw(" ".join(quote(word) for word in words))


def variable_name_error(name: str) -> str:
    """Return what is wrong with the name of a user's variable, empty for a valid one."""
    if not VARIABLE_NAME.fullmatch(name):
        return f"{name!r} is not a valid variable name"
    if _RESERVED.fullmatch(name):
        return f"the variable {name} is reserved for {'hpcdist' if name.startswith('HPCDIST_') else 'bash'}"
    return ""


def join_commands(commands: Iterable[str]) -> str:
    """Join commands with ``&&``: each runs if the one before it succeeded.

    A command with several lines, a comment, ``;``, ``||`` or ``&`` becomes a group in braces.
    """
    used = [command for command in commands if not _is_blank(command)]
    return used[0] if len(used) == 1 else " && ".join(map(_grouped, used))


def _is_blank(command: str) -> bool:
    return all(line.lstrip()[:1] in ("", "#") for line in command.split("\n"))


def _grouped(command: str) -> str:
    text = command.rstrip("\n")
    if not _NEEDS_GROUP.search(text):
        return text
    return f"{{ {text}\n\n}}" if text.endswith("\\") else f"{{ {text}\n}}"


def slug(text: str) -> str:
    """Return a name that every scheduler, file system and shell accepts unquoted."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:_LONGEST] or "experiment"


def numbered(name: str, number: int) -> str:
    """Return the name of a file that each job of a run has: ``job.sh``, of the second job ``job.2.sh``."""
    stem, dot, suffix = name.partition(".")
    return name if number == 1 else f"{stem}.{number}{dot}{suffix}"

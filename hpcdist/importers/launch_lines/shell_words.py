"""The words of one simple command of bash, and the values of those that the file alone determines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.words import VARIABLE_NAME

_WORD: Final = re.compile(
    r"""(?:[^\s;&|()<>'"`\\$\#] | (?<=\S)\# | \\[^\n] | '[^']*' | "(?:[^"\\]|\\.)*"
    | \$\([^()]*\) | \$\{[^{}]*\} | `[^`]*` | \$)+""",
    re.VERBOSE | re.DOTALL,
)
_SPACE: Final = re.compile(r"(?:[^\S\n]|\\\n)+")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
_PART: Final = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
"""Text in single quotes, in double quotes, after a backslash, and plain."""
_FILLED: Final = re.compile(r"""\\([\\"$`])|\$(?:\{(\w+)(?::?-([^{}$]*))?\}|(\w+))|[$`]""")
_LITERAL: Final = re.compile(r"'[^']*'|\\.", re.DOTALL)
_DYNAMIC: Final = re.compile(r"\$\(|`|\$\$|\$\{?RANDOM\b")
"""Expansions that may give another value each time."""


class UnsupportedLaunch(ValueError):  # noqa: N818 - it is not an error
    """A launch line that is not converted; the message continues `a command`."""


def words_of(text: str) -> list[tuple[str, int]]:
    """Return the words of one simple command, each with its place; an empty list for anything else."""
    text, at = text.strip(), len(text) - len(text.lstrip())
    found, here = [], 0
    while here < len(text):
        match = _WORD.match(text, here)
        if match:
            found.append((match[0], here + at))
        else:
            match = _SPACE.match(text, here)
        if not match:
            return []
        here = match.end()
    return found


def assignment(word: str) -> tuple[str, str] | None:
    """Return the name and the value, as it is written, of a word such as ``A=b``."""
    match = _ASSIGNMENT.fullmatch(word)
    return (match[1], match[2]) if match else None


def is_expanded_once(word: str) -> bool:
    """Return whether only the launcher's shell may expand a word: tasks might get other values."""
    return bool(_DYNAMIC.search(_LITERAL.sub("", word)))


def value_of(raw: str, env: Mapping[str, str]) -> str:
    """Return a word as the shell expands it.

    Raises:
        UnsupportedLaunch: when it needs a variable that is not in ``env``.
    """
    parts = _PART.findall(raw)
    try:
        filled = [
            _FILLED.sub(lambda match: _substitute(match, env), double or plain)
            for _, double, _, plain in parts
        ]
    except KeyError:
        raise UnsupportedLaunch(f"of which {raw} is known only at run time") from None
    return "".join(part[0] + part[2] + text for part, text in zip(parts, filled, strict=True))


def variable(raw: str, env: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the name, the value and the text of ``NAME=VALUE``, or of ``NAME``.

    Where the shell must expand the value, it is empty and the text sets the variable in front of a
    program; else the text is empty.

    Raises:
        UnsupportedLaunch: when the name is invalid, or the value may differ each time.
    """
    if is_expanded_once(raw):
        raise UnsupportedLaunch(f"of which {raw} is known only at run time")
    written, _, rest = raw.partition("=")
    quotation = '"' if written[:1] == '"' else ""
    try:
        name, _, value = value_of(raw, env).partition("=")
        text = ""
    except UnsupportedLaunch:
        name, value = written.removeprefix(quotation), ""
        text = f"{name}={quotation}{rest}"
    if not VARIABLE_NAME.fullmatch(name):
        raise UnsupportedLaunch(f"of which {name!r} is not a valid variable name")
    return name, value, text


def _substitute(match: re.Match[str], env: Mapping[str, str]) -> str:
    """Return the value of a variable, or an escaped character; a KeyError if ``env`` lacks it."""
    escaped, name, default = match[1], match[2] or match[4], match[3]
    if escaped:
        return escaped
    return env[name] if default is None else env.get(name, default)

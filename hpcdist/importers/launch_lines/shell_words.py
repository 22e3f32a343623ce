"""The words of one simple command of bash, and what those mean whose value the file alone tells."""

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
"""What stands in single quotes, in double quotes, behind a backslash, and plain."""
_FILLED: Final = re.compile(r"""\\([\\"$`])|\$(?:\{(\w+)(?::?-([^{}$]*))?\}|(\w+))|[$`]""")
_LITERAL: Final = re.compile(r"'[^']*'|\\.", re.DOTALL)
_ONCE: Final = re.compile(r"\$\(|`|\$\$|\$\{?RANDOM\b")
"""What gives another value each time that it is expanded."""


class Unclear(ValueError):  # noqa: N818 - it is no fault
    """Why a launch line stays as it is: words to stand behind `a command`."""


def words_of(text: str) -> list[tuple[str, int]]:
    """Return the words of one simple command, each with its place; none for anything else."""
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


def is_made_once(word: str) -> bool:
    """Tell whether the launcher's shell makes the word, and those of the tasks would make others."""
    return bool(_ONCE.search(_LITERAL.sub("", word)))


def value_of(raw: str, env: Mapping[str, str]) -> str:
    """Return what the shell makes of a word.

    Raises:
        Unclear: where ``env``, the variables of the file, does not tell.
    """
    parts = _PART.findall(raw)
    try:
        filled = [
            _FILLED.sub(lambda match: _known(match, env), double or plain) for _, double, _, plain in parts
        ]
    except KeyError:
        raise Unclear(f"of which {raw} is known only when it runs") from None
    return "".join(part[0] + part[2] + text for part, text in zip(parts, filled, strict=True))


def variable(raw: str, env: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the name, the value and the text of ``NAME=VALUE``, or of ``NAME``.

    Where the shell is to fill the value in, it is empty and the text sets the variable in front of a
    program; else the text is empty.

    Raises:
        Unclear: where the name is none, or the value is another each time that it is made.
    """
    if is_made_once(raw):
        raise Unclear(f"of which {raw} is known only when it runs")
    written, _, rest = raw.partition("=")
    quotation = '"' if written[:1] == '"' else ""
    try:
        name, _, value = value_of(raw, env).partition("=")
        text = ""
    except Unclear:
        name, value = written.removeprefix(quotation), ""
        text = f"{name}={quotation}{rest}"
    if not VARIABLE_NAME.fullmatch(name):
        raise Unclear(f"of which {name!r} is not a valid variable name")
    return name, value, text


def _known(match: re.Match[str], env: Mapping[str, str]) -> str:
    """Return what stands for a variable, or behind a backslash; a KeyError for what ``env`` does not tell."""
    escaped, name, default = match[1], match[2] or match[4], match[3]
    if escaped:
        return escaped
    return env[name] if default is None else env.get(name, default)

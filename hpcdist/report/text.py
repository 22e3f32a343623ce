"""Values of runs as text of a page: their control characters are visible, and no value is markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from markupsafe import Markup

LONGEST: Final = 2000
"""Characters of a value that are shown."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNSAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def visible(text: str, most: int = LONGEST) -> str:
    """Return the text with the code of each character that is not printable; a very long one is cut."""
    shown = text if text.isprintable() else "".join(map(_shown, text[: most + 1]))
    return f"{shown[:most]}… ({len(text) - most:,} more)" if len(text) > most else shown


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"  # noqa: PLR2004 - of one byte


def of_terminal(line: str) -> str:
    """Return a line of output as a terminal shows it: what comes after the last return, without colours."""
    return _COLOUR.sub("", line).expandtabs().rstrip("\r").rpartition("\r")[2]


def finalized(value: object, masked: Callable[[str], str]) -> object:
    """Return what a template writes for a value, without secrets; Jinja then escapes its markup."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return number(value)
    return "" if value is None else visible(masked(str(value)))


def number(value: float | None) -> str:
    """Return a number in six digits, ``-`` for none."""
    return "-" if value is None else f"{value:.6g}"


def data(value: Any) -> Markup:
    """Return a value as JSON that may stand in a ``<script>``, without a character of markup."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # what is not ASCII is escaped
    return Markup(text.translate(_UNSAFE))  # noqa: S704 - it has no markup

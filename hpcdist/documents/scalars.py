"""What a plain word of YAML means: the core schema of YAML 1.2.2, section 10.3.2, and nothing more.

So ``no``, ``on``, ``2:00:00`` and ``2024-01-31`` are text, ``010`` is ten and ``1e-10`` a number.
"""

from __future__ import annotations

import re
from typing import Final

Plain = str | int | float | bool | None

_CONSTANTS: Final[dict[str, Plain]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS: Final = 300  # what still fits into a float; Python itself refuses 4300
_KINDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false", "null": "null"}


def resolve(text: str) -> Plain:
    """Return what a plain (unquoted) word means.

    Raises:
        ValueError: for a number of more than 300 digits.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} digits is not supported; quote it if it is text")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def resolve_as(text: str, tag: str) -> Plain:
    """Return what a word means under a tag of the core schema: str, int, float, bool or null.

    Raises:
        ValueError: when it does not mean that.
    """
    if tag == "str":
        return text
    value = resolve(text)
    kinds = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}[tag]
    if type(value) not in kinds:
        raise ValueError(f"{text!r} is not {_KINDS[tag]}, which its tag !!{tag} requires")
    return float(value) if tag == "float" and value is not None else value

"""Ids of Flux: 64-bit numbers, which it writes in base 58 behind U+0192, or an ``f`` where that cannot be.

Here they are written with the ``f``: a folder's name that any locale can spell, which Flux takes everywhere.

Source: RFC 19 of Flux (https://flux-framework.readthedocs.io/projects/flux-rfc/en/latest/spec_19.html).
"""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_F58: Final = re.compile(rf"(?:\u0192|f)([{_DIGITS}]{{1,11}})")
_DECIMAL: Final = re.compile(r"[0-9]{1,20}")


def plain_id(text: str) -> str:
    """Return an id in any of the forms that Flux prints as ``f...``; empty for anything else."""
    if match := _F58.fullmatch(text):
        return f"f{match[1]}"
    number = int(text) if _DECIMAL.fullmatch(text) else 1 << 64
    return f58(number) if number < 1 << 64 else ""


def f58(number: int) -> str:
    """Return a number as an id."""
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return f"f{digits}"

"""Replacing a section in the text of a YAML file, whose comments and layout stay as they are."""

from __future__ import annotations

from typing import Final

_OF_SECTION: Final = (" ", "-", "#", "\n", "\r")
"""How its lines begin behind the first one, in block style."""


def with_section(text: str, key: str, section: str) -> str:
    """Return the text with this section in place of the one of its key, or at the end if there is none.

    ``section`` has the key, and ends with a newline. Comments and empty lines in front of the next key stay
    with that. The caller checks the result: not all that YAML allows is understood.
    """
    lines = text.splitlines(keepends=True)
    begin = next((place for place, line in enumerate(lines) if line.startswith(f"{key}:")), None)
    if begin is None:
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{section}"
    ends = (place for place in range(begin + 1, len(lines)) if not lines[place].startswith(_OF_SECTION))
    end = next(ends, len(lines))
    while end - 1 > begin and not lines[end - 1].startswith((" ", "-")):
        end -= 1
    return "".join((*lines[:begin], section, *lines[end:]))

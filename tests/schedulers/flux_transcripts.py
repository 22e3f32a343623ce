"""What a real Flux has answered, as tests/transcripts/flux/SOURCES says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from hpcdist.base.command import Command, Completed

PLACE: Final = Path(__file__).parents[1] / "transcripts" / "flux"
_RECORD: Final = re.compile(
    r"^\$ (?P<command>.*)\n(?P<out>(?:.*\n)*?)(?:\[stderr\]\n(?P<err>(?:.*\n)*?))?\[exit (?P<code>\d+)\]$",
    re.MULTILINE,
)


def recorded(name: str) -> list[Completed]:
    """Return the answers of one file, in their order."""
    return [
        Completed(
            Command(tuple(shlex.split(found["command"]))),
            int(found["code"]),
            found["out"],
            found["err"] or "",
        )
        for found in _RECORD.finditer((PLACE / name).read_text())
    ]


def refused(*words: str) -> Completed:
    """Return the answer to a wrong request: the words are some of its command."""
    (found,) = (done for done in recorded("refusals.txt") if {*words} <= {*done.command.argv})
    return found

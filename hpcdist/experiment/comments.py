"""What a file says behind its command, and YAML keeps for itself: comments that were meant as arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.documents.tree import Document
from hpcdist.documents.yaml_errors import quoted
from hpcdist.errors import Place, Problem

_PATH: Final = ("run", "cmd")
_SWALLOWED: Final = re.compile(r"[^'\"|>\[{].*?\s(?P<comment>#[^\s#!].*)")


def swallowed(document: Document) -> Iterator[Problem]:
    """Yield a warning where YAML takes an argument for a comment: ``cmd: train.py --tag #1 --lr 0.1``.

    A comment that begins with a space is taken for one.
    """
    place = document.place(_PATH)
    if not (place and place.line and place.file == document.file):
        return
    text = "".join(document.text.splitlines()[place.line - 1 : place.line])[place.column - 1 :].rstrip()
    if match := _SWALLOWED.fullmatch(text):
        there = Place(place.file, place.line, place.column + match.start("comment"))
        message = f"`{match['comment']}` is a comment in YAML, and no part of the command"
        hint = f"quote the command if it is: `cmd: {quoted(text)}`"
        yield Problem(message, _PATH, hint, "warning", there)

"""Comments behind a command that were probably meant as its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.documents.tree import Document, lines_of
from hpcdist.documents.yaml_errors import quoted
from hpcdist.errors import Place, Problem

_PATH: Final = ("run", "cmd")
_COMMENTED: Final = re.compile(r"[^'\"|>\[{].*?\s(?P<comment>#[^\s#!].*)")


def commented_arguments(document: Document) -> Iterator[Problem]:
    """Yield a warning where YAML reads an argument as a comment: ``cmd: train.py --tag #1 --lr 0.1``.

    ``#`` followed by a space does not warn.
    """
    place = document.place(_PATH)
    if not (place and place.line and place.file == document.file):
        return
    text = "".join(lines_of(document.text)[place.line - 1 : place.line])[place.column - 1 :].rstrip()
    if match := _COMMENTED.fullmatch(text):
        there = Place(place.file, place.line, place.column + match.start("comment"))
        message = f"`{match['comment']}` is a comment in YAML, not a part of the command"
        hint = f"if it is an argument, quote the command: `cmd: {quoted(text)}`"
        yield Problem(message, _PATH, hint, "warning", there)

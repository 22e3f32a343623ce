"""What a shell is within where a placeholder stands: quotes, a comment, or the lines of a here-document."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

COMMENT: Final = "#"
LINES: Final = "<<"
"""The lines of a here-document, in which variables are expanded, and quotes are quotes."""
PLAIN_LINES: Final = "<<'"
"""Those of one whose end is quoted, in which nothing is."""

_TURNS: Final = {
    "": re.compile(
        r"""\\. | (?P<quote>['"]) | (?P<comment>(?:\A|(?<=[\s;&|()]))\#) | <<<
        | \(\([^\n]*?\)\) | (?P<line>\n)
        | <<(?P<tabs>-?)[ \t]*(?P<mark>['"]?)(?P<escape>\\?)(?P<word>[A-Za-z_][\w.-]*)(?P=mark)""",
        re.VERBOSE | re.DOTALL,
    ),
    "'": re.compile(r"(?P<quote>')"),
    '"': re.compile(r'\\.|(?P<quote>")', re.DOTALL),
    COMMENT: re.compile(r"(?=(?P<line>\n))"),
}


class _Lines(NamedTuple):
    """Lines that a here-document will hold, up to the one that ends them."""

    within: str
    end: re.Pattern[str]


class Quoting:
    """Reads a command piece by piece; ``within`` tells of its end whether it is quoted, and how.

    It is a quote, ``COMMENT``, ``LINES``, ``PLAIN_LINES``, or empty (Bash Reference Manual, 3.1 and 3.6.6).
    """

    def __init__(self, command: str) -> None:
        self.within = ""
        self._command = command
        self._before = ""
        self._awaited: list[_Lines] = []

    def value(self) -> None:
        """Go on behind a value, after which no comment can begin."""
        self._before = "x"

    def read(self, text: str) -> None:
        """Go on with a piece of the command."""
        text, at = self._before + text, len(self._before)
        while turn := self._pattern().search(text, at):
            at = turn.end()
            self._turn(turn)
        self._before = text[-1:]

    def _pattern(self) -> re.Pattern[str]:
        return self._awaited[0].end if self.within in (LINES, PLAIN_LINES) else _TURNS[self.within]

    def _turn(self, turn: re.Match[str]) -> None:
        found = turn.groupdict()
        if self.within in (LINES, PLAIN_LINES):
            del self._awaited[0]
            self._next_line()
        elif found.get("quote"):
            self.within = "" if self.within else found["quote"]
        elif found.get("comment"):
            self.within = COMMENT
        elif found.get("line"):
            self._next_line()
        elif found.get("word"):
            tabs = "\t*" if found["tabs"] else ""
            end = re.compile(rf"(?<=\n){tabs}{re.escape(found['word'])}(?=\n|\Z)")
            within = PLAIN_LINES if found["mark"] or found["escape"] else LINES
            if end.search(self._command):  # without an end it shifts a number: $((a << b))
                self._awaited.append(_Lines(within, end))

    def _next_line(self) -> None:
        self.within = self._awaited[0].within if self._awaited else ""

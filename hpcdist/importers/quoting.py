"""The shell context of a placeholder, and the quotes in which a variable in its place is expanded."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

COMMENT: Final = "#"
LINES: Final = "<<"
"""A here-document, in which variables are expanded, and quotes are plain characters."""
PLAIN_LINES: Final = "<<'"
"""A here-document with a quoted delimiter, in which nothing is expanded."""

_AROUND: Final = {"": '"', "'": "'\"", '"': "", COMMENT: "", LINES: "", PLAIN_LINES: ""}
"""The quotes to open so that a variable is expanded as one word, by the context around it."""
_TRANSITIONS: Final = {
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


class _Advice(NamedTuple):
    message: str
    hint: str


NOT_EXPANDED: Final = _Advice(
    "a here-document with a quoted delimiter, in which nothing is expanded",
    "it is known only when the job runs: write the delimiter without quotes, `<<EOF`",
)
"""What is wrong with a value of the job in ``PLAIN_LINES``, and what to write instead."""


class _Lines(NamedTuple):
    """A here-document that begins on the next line; ``end`` matches its last line."""

    within: str
    end: re.Pattern[str]


class Quoting:
    """Reads a command piece by piece; ``within`` is the context after what was read.

    It is a quote, ``COMMENT``, ``LINES``, ``PLAIN_LINES``, or empty (Bash Reference Manual, 3.1 and 3.6.6).
    """

    def __init__(self, command: str) -> None:
        self.within = ""
        self._command = command
        self._previous = ""
        self._pending: list[_Lines] = []

    def expanded(self, text: str) -> str:
        """Return text with variables in the quotes with which the shell expands it here as one word.

        In ``PLAIN_LINES`` there are none.
        """
        self.value()
        around = _AROUND[self.within]
        return around + text + around[::-1]

    def value(self) -> None:
        """Skip a value, directly after which no comment can begin."""
        self._previous = "x"

    def read(self, text: str) -> None:
        """Read the next piece of the command."""
        text, at = self._previous + text, len(self._previous)
        while match := self._pattern().search(text, at):
            at = match.end()
            self._transition(match)
        self._previous = text[-1:]

    def _pattern(self) -> re.Pattern[str]:
        return self._pending[0].end if self.within in (LINES, PLAIN_LINES) else _TRANSITIONS[self.within]

    def _transition(self, match: re.Match[str]) -> None:
        found = match.groupdict()
        if self.within in (LINES, PLAIN_LINES):
            del self._pending[0]
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
            if end.search(self._command):  # without an end, it is a shift: $((a << b))
                self._pending.append(_Lines(within, end))

    def _next_line(self) -> None:
        self.within = self._pending[0].within if self._pending else ""

"""What the YAML parser says, in words for its user."""

from __future__ import annotations

import re
from typing import Final

import yaml

_SAID: Final = (
    (r"mapping values are not allowed", "': ' makes a key here, where none can stand",
     "quote the text if it holds ': ', or look at the indentation"),
    (r"(?:block )?sequence entries are not allowed", "a list cannot begin on the line of its key",
     "write each `- item` on a line of its own"),
    (r"while scanning a quoted scalar.*end of stream", "this quote is never closed", "close it"),
    (r"document (?:indicator|separator)", "a line of --- or ... stands inside quotes",
     "close the quote above it"),
    (r"did not find expected ',' or '\]'|expected ',' or '\]'", "this list is not closed, or lacks a comma",
     "write it as [a, b]"),
    (r"did not find expected ',' or '\}'|expected ',' or '\}'", "this { is not closed, or lacks a comma",
     "write it as {a: 1, b: 2}; quote a template: '{{ name }}'"),
    (r"tab character", "a tab is used for indentation", "use spaces"),
    (r"unknown escape character|escape code|hexdecimal|hexadecimal",
     "this backslash means nothing in double quotes", "use single quotes, or write \\\\"),
    (r"undefined tag handle|scanning a tag|parsing a tag", "this tag is not read",
     "quote the text if it begins with !"),
    (r"unexpected ':'", "a ':' within [ ] or { } needs a space after it", "quote the text if it holds ':'"),
    (r"could not find expected ':'", "this line is a key without ':'",
     "write `key: value`"),
    (r"expected '-' indicator", "this is not an item of the list above", "look at the indentation"),
    (r"did not find expected key|expected <block end>", "this does not fit what stands before it",
     "look at the indentation, and at quotes and brackets in or above this line"),
    (r"comment or line break|chomping or indentation", "the text after | or > begins on the next line", ""),
    (r"mapping keys are not allowed", "'? ' begins a key here, where none can stand", "quote the text"),
    (r"node content", "a value is expected here", "quote it if it is text"),
    (r"document start>", "a second document begins here", "keep one document in a file"),
    (r"incompatible YAML document|%YAML|directive", "this directive is not read", "remove the line with %"),
    (r"scanning an? (?:anchor|alias)", "& and * begin the name of an anchor or alias", "quote the text"),
)  # fmt: skip
_OPENED: Final = r"flow (?:sequence|mapping)|quoted scalar|simple key"
"""What is best seen where it begins."""
_NEXT: Final = r"mapping values|document start>|expected key|expected <block end>"
"""What is said of a key that follows a text."""
_COMMAND: Final = re.compile(r" *(?:- +)?(?P<section>run:\s*\{\s*)?cmd:\s+(?P<text>\S.*)")
_LONGEST: Final = 200
_BELOW: Final = "write the command on the lines below `cmd: |`"
_GLUED: Final = re.compile(r"\s*(?:- +)*(['\"]?[\w.-]+['\"]?:)(?=\S)(?!//)")


def in_plain_words(error: yaml.YAMLError, text: str) -> tuple[str, str, int, int]:
    """Return what is wrong, a hint, and the line and column, counted from 1, where it is best seen."""
    context, problem = getattr(error, "context", None) or "", getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    opened = getattr(error, "context_mark", None)
    if opened and re.search(_OPENED, context) and "escape" not in problem:
        mark = opened
    line, column = (mark.line, mark.column) if mark else (0, 0)
    said = f"{context} {problem}"
    if glued := _glued(said, text.splitlines(), line, column):
        return glued
    what, hint = _said(said, _character(text, line, column))
    if mend := _of_a_command(text.splitlines(), line):
        # A { of the command itself, or one that the command does not let end.
        what = what.replace("this { is not closed, or lacks a comma", "this { } ends elsewhere")
        return what, mend, line + 1, column + 1
    return what, hint, line + 1, column + 1


def quoted(text: str) -> str:
    """Return a text in quotes, in which YAML finds nothing else."""
    return "'" + text.replace("'", "''") + "'"


def cut(text: str, key: str) -> tuple[str, str]:
    """Return what to say of a text within { } that ends at a comma, behind which this key stands."""
    mend = f"quote it: {quoted(text)}" if len(text) <= _LONGEST else "quote the whole text"
    return f"within {{ }} a text ends at its first ',', and {key!r} is taken for a key", mend


def _of_a_command(lines: list[str], line: int) -> str:
    """Return how to write the command that stands in a line, or goes on there; nothing where none does."""
    if not 0 <= line < len(lines):
        return ""
    if match := _COMMAND.fullmatch(lines[line]):
        text = match["text"].rstrip()
        text = text.removesuffix("}").rstrip() if match["section"] else text
        return f"quote the command: `cmd: {quoted(text)}`" if len(text) <= _LONGEST else _BELOW
    above = _COMMAND.fullmatch(lines[line - 1]) if line else None
    return _BELOW if above and above["text"].rstrip().endswith("\\") else ""


def _glued(said: str, lines: list[str], line: int, column: int) -> tuple[str, str, int, int] | None:
    """Tell of ``key:value``, which is text: the parser misses a key there, or meets the next one below."""
    if "simple key" not in said:
        if not re.search(_NEXT, said) or ": " in "".join(lines[line : line + 1])[:column]:
            return None
        line = _first_above(lines, line)
    match = _GLUED.match(lines[line]) if 0 <= line < len(lines) else None
    if not match:
        return None
    return "this ':' has no space after it", f"put a space after `{match[1]}`", line + 1, match.end()


def _first_above(lines: list[str], line: int) -> int:
    """Return the line above where it is the first of a section or an item, else -1."""
    above = [at for at, text in enumerate(lines[:line]) if not re.match(r"\s*(?:#|$)", text)]
    first = len(above) == 1 or (above and re.search(r":\s*(?:#.*)?$", lines[above[-2]]))
    return above[-1] if first or (above and re.match(r"\s*- ", lines[above[-1]])) else -1


def _said(parser_words: str, character: str) -> tuple[str, str]:
    if "cannot start any token" in parser_words:
        if character == "\t":
            return "a tab is used for indentation", "use spaces"
        return f"a value cannot begin with {character!r}", "quote it"
    for pattern, what, hint in _SAID:
        if re.search(pattern, parser_words):
            return what, hint
    return f"this is not YAML: {parser_words.strip()}", ""


def _character(text: str, line: int, column: int) -> str:
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""

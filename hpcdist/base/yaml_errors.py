"""Turns the errors of the YAML parser into messages for users."""

from __future__ import annotations

import re
from typing import Final

import yaml

from hpcdist.base.errors import Place

_MESSAGES: Final = (
    (r"mapping values are not allowed", "': ' makes this a key, where none is allowed",
     "quote the text if it contains ': ', or check the indentation"),
    (r"(?:block )?sequence entries are not allowed", "a list cannot begin on the line of its key",
     "write each `- item` on a line of its own"),
    (r"while scanning a quoted scalar.*end of stream", "this quote is never closed", "close it"),
    (r"document (?:indicator|separator)", "a line of --- or ... is inside quotes",
     "close the quote above it"),
    (r"did not find expected ',' or '\]'|expected ',' or '\]'",
     "this list is not closed, or a comma is missing", "write it as [a, b]"),
    (r"did not find expected ',' or '\}'|expected ',' or '\}'", "this { is not closed, or a comma is missing",
     "write it as {a: 1, b: 2}; quote a template: '{{ name }}'"),
    (r"tab character", "a tab is used for indentation", "use spaces"),
    (r"unknown escape character|escape code|hexdecimal|hexadecimal",
     "this is not a valid escape in double quotes", "use single quotes, or write \\\\"),
    (r"undefined tag handle|scanning a tag|parsing a tag", "this tag is not supported",
     "quote the text if it begins with !"),
    (r"unexpected ':'", "a ':' within [ ] or { } needs a space after it",
     "quote the text if it contains ':'"),
    (r"could not find expected ':'", "this line is a key without ':'",
     "write `key: value`"),
    (r"expected '-' indicator", "this is not an item of the list above", "check the indentation"),
    (r"did not find expected key|expected <block end>", "this does not continue what is before it",
     "check the indentation, quotes and brackets in this line and above"),
    (r"comment or line break|chomping or indentation", "the text after | or > begins on the next line", ""),
    (r"mapping keys are not allowed", "'? ' begins a key here, where none is allowed", "quote the text"),
    (r"node content", "a value is expected here", "quote it if it is text"),
    (r"document start>", "a second document begins here", "keep one document in a file"),
    (r"incompatible YAML document|%YAML|directive", "this directive is not supported",
     "remove the line with %"),
    (r"scanning an? (?:anchor|alias)", "& and * begin the name of an anchor or alias", "quote the text"),
)  # fmt: skip
_AT_ITS_START: Final = r"flow (?:sequence|mapping)|quoted scalar|simple key"
"""Errors that are best reported at the start of their construct."""
_NEXT_KEY: Final = r"mapping values|document start>|expected key|expected <block end>"
"""Errors that the parser reports at the key after the actual error."""
_COMMAND: Final = re.compile(r" *(?:- +)?(?P<section>run:\s*\{\s*)?cmd:\s+(?P<text>\S.*)")
_LONGEST: Final = 200
_USE_BLOCK: Final = "write the command on the lines below `cmd: |`"
_KEY: Final = re.compile(r"\s*(?:- +)*(?P<key>['\"]?[\w.-]+['\"]?) ?:(?:\s|$)")
_TEXT: Final = re.compile(r"\s*(?P<text>[A-Za-z][\w .-]*)$")
_BLOCK: Final = re.compile(r": *[|>][+-]?\d*\s*$")
_NO_SPACE: Final = re.compile(r"\s*(?:- +)*(['\"]?[\w.-]+['\"]?:)(?=\S)(?!//)")


def explain(error: yaml.YAMLError, text: str) -> tuple[str, str, int, int]:
    """Return the message, the hint, and the line and column, from 1, where the error is best reported."""
    context, problem = getattr(error, "context", None) or "", getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    opened = getattr(error, "context_mark", None)
    if opened and re.search(_AT_ITS_START, context) and "escape" not in problem:
        mark = opened
    line, column = (mark.line, mark.column) if mark else (0, 0)
    reported = f"{context} {problem}"
    lines = text.splitlines()
    found = _merge_conflict(lines) or _missing_space(reported, lines, line, column)
    if found := found or _indentation(reported, lines, line, column):
        return found
    what, hint = _message(reported, _character(text, line, column))
    if never_closed := _never_closed(what, lines, line, column):
        return *never_closed, line + 1, column + 1
    if command_hint := _command_hint(lines, line):
        # The { belongs to the command itself, or the command contains its }.
        what = what.replace("this { is not closed, or a comma is missing", "this { } ends at another }")
        return what, command_hint, line + 1, column + 1
    return what, hint, line + 1, column + 1


def quoted(text: str) -> str:
    """Return a text as a single-quoted scalar of YAML."""
    return "'" + text.replace("'", "''") + "'"


def template_at(text: str, place: Place) -> str:
    """Return the quoted value that begins with a template whose second brace is there; empty if none does."""
    line = text.splitlines()[place.line - 1]
    before, value = line[: place.column - 2], line[place.column - 2 :].rstrip()
    if not value.startswith("{{"):
        return ""
    is_inside = before.count("{") > before.count("}") or before.count("[") > before.count("]")
    whole = re.match(r"\{\{.*?\}\}", value) if is_inside else re.match(r".*?(?=\s+#|$)", value)
    return quoted(whole[0]) if whole else ""


def split_at_comma(text: str, key: str) -> tuple[str, str]:
    """Return the message and hint for an unquoted text in { } that was split at a comma before this key."""
    hint = f"quote it: {quoted(text)}" if len(text) <= _LONGEST else "quote the whole text"
    return f"within {{ }} a text ends at its first ',', and {key!r} is read as a key", hint


def _command_hint(lines: list[str], line: int) -> str:
    """Return how to write the command in this line, or continued in it; empty without one."""
    if not 0 <= line < len(lines):
        return ""
    if match := _COMMAND.fullmatch(lines[line]):
        text = match["text"].rstrip()
        text = text.removesuffix("}").rstrip() if match["section"] else text
        return f"quote the command: `cmd: {quoted(text)}`" if len(text) <= _LONGEST else _USE_BLOCK
    above = _COMMAND.fullmatch(lines[line - 1]) if line else None
    return _USE_BLOCK if above and above["text"].rstrip().endswith("\\") else ""


def _missing_space(
    reported: str, lines: list[str], line: int, column: int
) -> tuple[str, str, int, int] | None:
    """Report ``key:value``, which is text: the parser fails there, or at the next key below."""
    if "simple key" not in reported:
        if not re.search(_NEXT_KEY, reported) or ": " in "".join(lines[line : line + 1])[:column]:
            return None
        line = _first_above(lines, line)
    match = _NO_SPACE.match(lines[line]) if 0 <= line < len(lines) else None
    if not match:
        return None
    return "this ':' has no space after it", f"put a space after `{match[1]}`", line + 1, match.end()


def _merge_conflict(lines: list[str]) -> tuple[str, str, int, int] | None:
    """Report the first mark of a merge conflict of git."""
    marks = [at for at, text in enumerate(lines) if re.match(r"<{7} |={7}$|>{7} ", text)]
    if not marks:
        return None
    return "this line is the mark of a merge conflict", "resolve the conflict in git", marks[0] + 1, 1


def _indentation(reported: str, lines: list[str], line: int, column: int) -> tuple[str, str, int, int] | None:
    """Report a key that begins its line but not below the key above, or the missing colon of that one."""
    above = next((at for at in range(line - 1, -1, -1) if not re.match(r"\s*(?:#|$)", lines[at])), -1)
    if above < 0 or line >= len(lines) or not re.search(_NEXT_KEY + "|simple key|'-' indicator", reported):
        return None
    if _BLOCK.search(lines[above]):
        what, hint = "the text after the line above is not indented", "indent it deeper than its key"
        return (what, hint, line + 1, 1) if "simple key" in reported else None
    key, before = _KEY.match(lines[line]), _KEY.match(lines[above])
    if not key or column > key.end("key"):
        return None
    indent = key.start("key")
    if before and before.start("key") != indent:
        message = f"this key is indented by {indent}, and the key {before['key']!r} above it by "
        hint = "give keys of one section the same indentation"
        return f"{message}{before.start('key')}", hint, line + 1, indent + 1
    text = _TEXT.match(lines[above])
    if text and text.start("text") == indent:
        return "this line is a key without ':'", "write `key: value`", above + 1, indent + 1
    return None


def _never_closed(what: str, lines: list[str], line: int, column: int) -> tuple[str, str] | None:
    """Report a quote or bracket that the rest of the file does not close."""
    rest = "\n".join([lines[line][column:], *lines[line + 1 :]]) if 0 <= line < len(lines) else ""
    if what.startswith("this quote") and len(re.findall(re.escape(rest[:1]), lines[line][column:])) == 1:
        return what, "close it"
    for opening, closing in ("{}", "[]"):
        if rest[:1] == opening and rest.count(closing) < rest.count(opening) and "{{" not in rest:
            return f"this {opening} is never closed", f"write its {closing}"
    return None


def _first_above(lines: list[str], line: int) -> int:
    """Return the line above if it is the first of a section or an item, else -1."""
    above = [at for at, text in enumerate(lines[:line]) if not re.match(r"\s*(?:#|$)", text)]
    first = len(above) == 1 or (above and re.search(r":\s*(?:#.*)?$", lines[above[-2]]))
    return above[-1] if first or (above and re.match(r"\s*- ", lines[above[-1]])) else -1


def _message(parser_words: str, character: str) -> tuple[str, str]:
    if "cannot start any token" in parser_words:
        if character == "\t":
            return "a tab is used for indentation", "use spaces"
        return f"a value cannot begin with {character!r}", "quote it"
    for pattern, what, hint in _MESSAGES:
        if re.search(pattern, parser_words):
            return what, hint
    return f"this is not YAML: {parser_words.strip()}", ""


def _character(text: str, line: int, column: int) -> str:
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""

"""Submission directives as flux batch reads them (RFC 36), single lines only."""

from __future__ import annotations

import re
import shlex

_SENTINEL = re.compile(r"^(\W*)(flux:|FLUX:)(.*)$")


class DirectiveError(ValueError):
    """What flux batch says, and ends with 1."""


def directives(script: str) -> dict[int, list[str]]:
    """Return the words of each directive by its line."""
    sentinel = ""
    closed = 0
    words: dict[int, list[str]] = {}
    for number, line in enumerate(script.splitlines(), 1):
        match = _SENTINEL.match(line)
        if match is None:
            if sentinel and not closed and line.strip() and not line.startswith("#"):
                closed = number - 1
            continue
        if closed:
            message = f"line {number}: orphan '{match[2]}' detected: directives disabled after line {closed}"
            raise DirectiveError(message)
        if sentinel and sentinel != match[1] + match[2]:
            raise DirectiveError(f"line {number}: sentinel changed from '{sentinel}'")
        sentinel = match[1] + match[2]
        words[number] = split(match[3], number)
    return words


def split(text: str, number: int = 1) -> list[str]:
    """Cut one directive into words, as Python's shlex does with Flux's settings."""
    if re.search(r"\"\"\"|'''", text):
        raise DirectiveError(f"line {number}: unclosed triple quote: {text.strip()}")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.escapedquotes = "\"'"
    try:
        words = list(lexer)
    except ValueError as error:
        raise DirectiveError(f"line {number}: {text}: {error}") from None
    if words and not words[0].startswith("-"):
        raise DirectiveError(f"line {number}: Unknown directive: {text}")
    return words

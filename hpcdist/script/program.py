"""The user's command as it stands in a task: its shell becomes the program, wherever that means the same.

What is left of a shell beside a program keeps the batch system's signals from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.experiment.launch.bash_words import pieces, unquoted

_BUILTINS: Final = frozenset({
    ".", ":", "[", "((", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen",
    "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exit",
    "export", "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local",
    "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "set", "shopt",
    "source", "suspend", "test", "times", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset",
    "wait",
})  # fmt: skip
"""What bash runs itself, so that nothing can take its place."""

_KEYWORDS: Final = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
    "function", "coproc", "time", "!", "]]", "in",
})  # fmt: skip
_STAYS: Final = frozenset({"alias", "exec", "return", "trap", "shift"})
"""What works only in a shell that stays, or in one that has a program's words."""

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_BETWEEN: Final = re.compile(r"\n+|;\n*|&&\n*|\|\|?\n*")


class _Simple(NamedTuple):
    """A simple command: where it starts, its words, and the operator in front of it."""

    start: int
    before: str
    words: tuple[str, ...]


def becoming(command: str) -> str | None:
    """Return the command with ``exec`` in front of its last simple command; None where a shell must stay.

    It stays for a pipe, a list that can fail over, a loop, a function, a trap, a here-document, a builtin.
    """
    found = _statements(command)
    if not found or any(not _is_plain(one) for one in found) or "|" in found[-1].before:
        return None
    last = found[-1]
    words = [*last.words]
    while words and _ASSIGNMENT.fullmatch(words[0]):
        del words[0]
    if not words or unquoted(words[0]) in _BUILTINS:
        return None
    before, own = command[: last.start], command[last.start :].strip()
    if own.endswith("\\"):
        return None
    return f"{before}exec {'env ' if words != [*last.words] else ''}{own}"


def is_single(command: str) -> bool:
    """Return whether the command is one simple command, without variables in front of it."""
    found = _statements(command)
    words = found[0].words if found else ()
    return len(found or ()) == 1 and becoming(command) is not None and not _ASSIGNMENT.fullmatch(words[0])


def indented(text: str) -> str:
    """Return lines as they stand in a function: all as they are where a word goes over several of them."""
    goes_over = any("\n" in (piece["word"] or "") for piece in pieces(text + "\n"))
    return text if goes_over else "\n".join(f"  {line}".rstrip() for line in text.split("\n")).lstrip(" ")


def _is_plain(one: _Simple) -> bool:
    first = unquoted(one.words[0])
    return one.words[-1] == "]]" if first == "[[" else first not in _KEYWORDS and first not in _STAYS


def _statements(command: str) -> list[_Simple] | None:
    """Return the simple commands of a text that has nothing else; None for one that has."""
    found: list[_Simple] = []
    try:
        found.extend(_read(command))
    except ValueError:
        return None
    return found


def _read(command: str) -> Iterator[_Simple]:
    """Yield them.

    Raises:
        ValueError: at anything else.
    """
    words: list[str] = []
    start, operator, between, before = 0, "", "", ""
    for piece in pieces(command + "\n"):
        text = piece[0]
        _check_piece(piece)
        if piece["end"] and not (text == "&" and before.endswith((">", "<"))):
            between += text
        elif piece["word"] or text == "&":
            if between:
                _check_between(between, is_first=not words)
                if words:
                    yield _Simple(start, operator, tuple(words))
                operator, words = between, []
            start = start if words else piece.start()
            words.append(text)
            between = ""
        before = text
    if between.strip("\n;"):
        raise ValueError(between)
    if words:
        yield _Simple(start, operator, tuple(words))


def _check_piece(piece: re.Match[str]) -> None:
    if piece["mark"] or (piece[0][0] in "'\"`" and not piece["word"]):
        raise ValueError(piece[0])


def _check_between(operator: str, *, is_first: bool) -> None:
    if operator.strip("\n") if is_first else not _BETWEEN.fullmatch(operator):
        raise ValueError(operator)

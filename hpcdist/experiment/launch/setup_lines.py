"""The first lines of a command, which set its shell up (``. venv/bin/activate``), and where its program is.

A launcher such as torchrun, which starts the program several times on a node, is in that environment, too: it
starts where these lines end, at ``START``, a function of the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Final, NamedTuple

from hpcdist.experiment.launch.bash_words import pieces, unquoted

START: Final = "hpcdist_start_processes"
"""The function of the script that starts what the command's file gets as its arguments, if it gets any."""
_CHANGES_PATH: Final = frozenset({
    "source", ".", "module", "ml", "conda", "mamba", "micromamba", "pyenv", "spack", "eval",
})  # fmt: skip
_SETS_UP: Final = _CHANGES_PATH | frozenset({
    "export", "declare", "typeset", "readonly", "unset", "alias", "set", "shopt", "ulimit", "umask", "cd",
    "pushd", "popd", "trap", "true", ":", "[", "[[", "test", "exit", "echo", "printf", "mkdir", "hash",
    "type",
})  # fmt: skip
"""Programs that may run twice, before a launcher and in each of its processes."""
_ASSIGNMENT: Final = re.compile(r"\w+=.*", re.DOTALL)
_COMPUTED: Final = re.compile(r"""["']?(?:\$\(|`)""")
_KEYWORDS: Final = {"if": 1, "then": 0, "elif": 0, "else": 0, "!": 0, "fi": -1}


class _Statement(NamedTuple):
    """A simple command, or the beginning of a group; ``before``: the operator in front of it, "" for none."""

    before: str
    start: int
    words: tuple[str, ...] = ()


def with_start(command: str) -> str:
    """Return a command with the start of processes behind the lines that set its shell up.

    It is returned as it is where no such line changes which programs are found, where its program is not
    clearly a command of its own behind them, and where it has ``START`` already.
    """
    place = _program(command)
    if place is None or START in command:
        return command
    before, after = command[: place.start], command[place.start :]
    return f"{before}{START} && {after}" if place.before == "&&" else f"{before}{START}\n{after}"


def _program(command: str) -> _Statement | None:
    """Return where the program begins behind lines that set the shell up, None without such lines."""
    place, depth, changes = None, 0, False
    for statement in _statements(command):
        if depth == 0 and statement.before in ("\n", ";", "&&"):
            place = statement if changes else None
        own = [*dropwhile(_KEYWORDS.__contains__, statement.words)]
        if statement.before in ("", "|", "&") or not statement.words or not _sets_up(own):
            return place
        depth += _KEYWORDS.get(statement.words[0], 0)
        changes |= bool(own) and (own[0] in _CHANGES_PATH or any(word.startswith("PATH=") for word in own))
    return None


def _statements(command: str) -> Iterator[_Statement]:
    operator, start, words = "\n", 0, list[str]()
    for piece in pieces(command + "\n"):
        if piece["word"]:
            start = start if words else piece.start()
            words.append(piece["word"])
        elif piece["end"]:
            if words:
                yield _Statement(operator.strip("\n") or "\n", start, tuple(words))
                operator, words = "", []
            if piece["end"] in "(){}":
                yield _Statement(operator and (operator.strip("\n") or "\n"), piece.start())
            operator += piece["end"]


def _sets_up(own: Sequence[str]) -> bool:
    first = unquoted(own[0]) if own else ":"
    if first == "eval":
        return bool(_COMPUTED.match(own[-1]))
    if first == "[[":
        return own[-1] == "]]"
    return first in _SETS_UP or all(_ASSIGNMENT.fullmatch(word) for word in own)

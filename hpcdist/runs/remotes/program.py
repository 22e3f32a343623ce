"""The program that is sent to a remote: POSIX shell, whose answers follow a random word.

The command of ssh is one line that every login shell reads alike (sh, bash, zsh, fish, csh): it has no
newline, backslash or exclamation mark. It reads the program from stdin, byte by byte, so that what follows
is left for the program.
"""

from __future__ import annotations

import functools
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hpcdist.base import resources
from hpcdist.base.command import Command
from hpcdist.base.words import Raw, quote

PART: Final = 1 << 22
"""Bytes of a file that come at once; more come with the next look."""

ROOM: Final = 1 << 26
"""Bytes of files that come with one look, plus one part for each run."""


class RemoteProgram(NamedTuple):
    """A program with the word that marks its answers."""

    text: str
    mark: str

    @property
    def line(self) -> str:
        """The words for the login shell."""
        read = f"dd bs=1 count={len(encoded(self.text))} 2>/dev/null"
        return f"exec /bin/sh -c 'hpcdist_program=$({read}); eval \"$hpcdist_program\"'"


def encoded(text: str) -> bytes:
    """Return the bytes of a program, which may hold names of files that are not UTF-8."""
    return text.encode(errors="surrogateescape")


def request(lines: Iterable[str], needs: Iterable[str] = ()) -> RemoteProgram:
    """Return the request for these lines; ``needs``: lines that may switch to a login shell."""
    mark = f"hpcdist-{secrets.token_hex(8)}"
    body = [f"hpcdist_mark={mark}", _functions(), *needs, "hpcdist_print begin", *lines, "hpcdist_print end"]
    # In braces: the shell runs nothing of a program whose end was cut off.
    return RemoteProgram("\n".join(["{", *body, "}"]), mark)


@functools.cache
def _functions() -> str:
    text = (resources.shipped("templates") / "remote.sh").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))


def call(function: str, *words: object) -> str:
    """Return a line that calls a function with these words."""
    return " ".join((function, *map(quote, words)))


def path(text: str) -> Raw:
    """Return a path of the config as one word: ``~`` and a variable at its head are expanded there."""
    name = variable(text)
    if not name:
        return quote(text)
    _, slash, rest = text.partition("/")
    return Raw(f'"${{{name}-}}"{quote(slash + rest) if slash else ""}')


def variable(text: str) -> str:
    """Return the variable at the head of a path of the config, empty for none."""
    begin = re.match(r"~(?=/|$)|\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?(?=/|$)", text)
    return (begin[1] or "HOME") if begin else ""


def command(given: Command, first: str = "") -> str:
    """Return the function ``hpcdist_command``, to run a command with its environment and timeout.

    ``first``: the path of a program whose folder comes first in PATH.
    """
    lines = []
    if given.drop_environment:
        drop, keep = " ".join(given.drop_environment), " ".join(given.keep_environment)
        lines.append(call("hpcdist_drop", drop, keep))
    if "LC_ALL" not in given.keep_environment:
        lines.append("export LC_ALL=C")
    if first:
        lines.append(f'hpcdist_first={path(first)}; export PATH="${{hpcdist_first%/*}}:$PATH"')
    lines += [f"export {name}={quote(value)}" for name, value in given.environment]
    if given.cwd:
        lines.append(f"cd {quote(given.cwd)} || exit 126")
    lines.append(call("hpcdist_exec", math.ceil(given.timeout), *given.argv))
    return "hpcdist_command() (\n" + "\n".join(lines) + "\n)"


def known(sizes: Mapping[str, int], most: int = PART, room: int = ROOM) -> str:
    """Return the function that prints how much of a file is here already.

    ``most``: bytes of one part; ``room``: bytes of a run after which no further part begins.
    """
    cases = [f"{quote(name)}) echo {size} ;;" for name, size in sizes.items() if size]
    head = (f"hpcdist_most={most} hpcdist_room={room}", 'hpcdist_known() { case "$1" in')
    return "\n".join([*head, *cases, "*) echo 0 ;;", "esac; }"])

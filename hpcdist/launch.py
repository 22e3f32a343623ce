"""Commands that are a launch already: the user's own mpirun, horovodrun, torchrun or srun line.

Such a command stays as it is: it runs once, on the head node, with the hostfile at ``$HPCDIST_HOSTFILE``;
torchrun and its older forms run once a replica, each on a node of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal, NamedTuple

ONCE: Final = frozenset(
    {"mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "srun", "jsrun", "aprun", "ibrun", "orterun", "prun"}
)
PER_NODE: Final = frozenset({"torchrun", "torchrun_jsc"})
_TORCH_MODULES: Final = frozenset({"torch.distributed.launch", "torch.distributed.run"})
_PREFIXES: Final = frozenset({"exec", "time", "env", "nohup", "then", "do", "else", "!"})
_PIECE: Final = re.compile(
    r"""
    \\\n | [^\S\n]+ | (?<![^\s;&|(){}])\#[^\n]*  # joined lines, space, comments
    | (?P<end>[;&|\n(){}])  # the end of a simple command
    | (?P<word>(?:[^\s;&|(){}'"`\\$] | \\[^\n]
        | '[^']*' | "(?:[^"\\]|\\.)*" | \$\([^()]*\) | \$\{[^{}]*\} | `[^`]*` | \$)+)
    | ['"`].* | .  # half a quotation, and what is left
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_SPACED_COUNT: Final = re.compile(r"-np?|--(?:n|np|ntasks|num-proc)")
_GLUED_COUNT: Final = re.compile(r"(?:-np?=?|--(?:n|np|ntasks|num-proc)=)(\d+)")
_PROGRAM: Final = re.compile(r"(?:.*/)?python[0-9.]*|bash|sh|.*\.(?:py|sh)")
_TWO_VALUES: Final = frozenset({"-mca", "--mca", "--gmca", "-gmca", "-genv", "-env"})
_NO_VALUE: Final = re.compile(
    r"--?(?:allow-run-as-root|(?:no)?oversubscribe|display-map|report-bindings|tag-output|verbose|exclusive|"
    r"label|unbuffered|l|u|v+)|--[^=]+=.*",
    re.DOTALL,
)


class UserLaunch(NamedTuple):
    """A launch that the user wrote; ``tasks`` is its own count, None where it gives none."""

    program: str
    runs: Literal["once", "per_node"]
    tasks: int | None


def user_launch(command: str) -> UserLaunch | None:
    """Return the launch that this command is, None for an ordinary program.

    Looked at is the first word of each simple command, after variables and ``exec``, ``time``, ``env``.
    """
    for words in _simple_commands(command):
        program = words[0].rsplit("/", 1)[-1]
        if program in ONCE:
            return UserLaunch(program, "once", _count(words[1:]))
        if program in PER_NODE or _is_torch_module(words):
            return UserLaunch("torchrun", "per_node", None)
    return None


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without what stands before its program."""
    words: list[str] = []
    for piece in _PIECE.finditer(text + "\n"):
        if piece["word"]:
            words.append(_unquoted(piece["word"]))
        elif piece["end"]:
            while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] in _PREFIXES):
                words = words[1:]
            if words:
                yield words
            words = []


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def _is_torch_module(words: list[str]) -> bool:
    if not words[0].rsplit("/", 1)[-1].startswith("python"):
        return False
    for option, value in pairwise(words[1:]):
        if option == "-m":
            return value in _TORCH_MODULES
        if not option.startswith("-"):
            return False
    return False


def _count(arguments: list[str]) -> int | None:
    """Return the number of processes among the launcher's own options; what follows the program is not."""
    if ":" in arguments:
        return None
    values = 0
    for word, following in pairwise([*arguments, ""]):
        glued = _GLUED_COUNT.fullmatch(word)
        if glued:
            return int(glued[1])
        if _SPACED_COUNT.fullmatch(word):
            return int(following) if following.isdecimal() else None
        if word.startswith("-"):
            values = 0 if _NO_VALUE.fullmatch(word) else 2 if word in _TWO_VALUES else 1
        elif values == 0 or _PROGRAM.fullmatch(word):
            return None
        else:
            values -= 1
    return None

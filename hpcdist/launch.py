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

ONCE: Final = frozenset({
    "mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "deepspeed", "srun", "jsrun", "aprun", "ibrun",
    "orterun", "prun",
})  # fmt: skip
PER_NODE: Final = frozenset({"torchrun", "torchrun_jsc"})
_TORCH_MODULES: Final = frozenset({"torch.distributed.launch", "torch.distributed.run"})
_KEYWORDS: Final = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!"})
_WRAPPERS: Final = {
    "command": (frozenset[str](), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "nohup": (frozenset[str](), 0),
    "numactl": (frozenset({"-m", "--membind", "-N", "--cpunodebind", "-C", "--physcpubind", "-i",
                           "--interleave", "-p", "--preferred"}), 0),
    "setsid": (frozenset[str](), 0),
    "stdbuf": (frozenset({"-i", "--input", "-o", "--output", "-e", "--error"}), 0),
    "taskset": (frozenset[str](), 1),
    "time": (frozenset({"-f", "--format", "-o", "--output"}), 0),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
}  # fmt: skip
"""Programs that run another: their options that take a value, and how many words stand before it."""
_PIECE: Final = re.compile(
    r"""
    (?<!<)<<(?!<)-?[^\S\n]*(?P<mark>\w+|'\w+'|"\w+"|\\\w+)  # a heredoc
    | \\\n | [^\S\n]+ | (?<![^\s;&|(){}])\#[^\n]*  # joined lines, space, comments
    | (?P<end>[;&|\n(){}])  # the end of a simple command
    | (?P<word>(?:[^<\s;&|(){}'"`\\$] | \\[^\n]
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


UNSEEN: Final = UserLaunch("the command", "once", None)
"""A launch that is only said to be one: ``backend: mpi``."""


def user_launch(command: str) -> UserLaunch | None:
    """Return the launch that this command is, None for an ordinary program.

    Looked at is the first word of each simple command, after variables, keywords, and ``time`` or its like.
    """
    for words in _simple_commands(command):
        program = words[0].rsplit("/", 1)[-1]
        if program in ONCE:
            return UserLaunch(program, "once", _count(words[1:]))
        if program in PER_NODE or _is_torch_module(words) or words[:2] == ["accelerate", "launch"]:
            return UserLaunch("torchrun", "per_node", None)
    return None


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without what stands before its program."""
    words: list[str] = []
    for piece in _pieces(text + "\n"):
        if piece["word"]:
            words.append(_unquoted(piece["word"]))
        elif piece["end"]:
            if words := _from_program(words):
                yield words
            words = []


def _pieces(text: str) -> Iterator[re.Match[str]]:
    """Yield the pieces of a command, without the bodies of its heredocs."""
    marks: list[str] = []
    at = 0
    while piece := _PIECE.match(text, at):
        yield piece
        at = piece.end()
        if piece["mark"]:
            marks.append(piece["mark"].strip("'\"\\"))
        elif piece["end"] == "\n":
            for mark in marks:
                body = re.compile(rf"(?:.*\n)*?\t*{mark}\n").match(text, at)
                at = body.end() if body else at
            marks.clear()


def _from_program(words: list[str]) -> list[str]:
    """Return the words without assignments, keywords and programs that only run another."""
    while words:
        wrapper = _WRAPPERS.get(words[0].rsplit("/", 1)[-1])
        if wrapper:
            words = _after_options(words[1:], *wrapper)
        elif _ASSIGNMENT.fullmatch(words[0]) or words[0] in _KEYWORDS:
            words = words[1:]
        else:
            break
    return words


def _after_options(words: list[str], with_value: frozenset[str], before: int) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in with_value else 1 :]
    return words[before:]


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
            values = _values_of(word, following)
        elif values == 0 or _PROGRAM.fullmatch(word):
            return None
        else:
            values -= 1
    return None


def _values_of(option: str, following: str) -> int:
    """Return how many words an option takes; `-genv NAME=VALUE` and `-genv NAME VALUE` are the same."""
    if _NO_VALUE.fullmatch(option):
        return 0
    return 2 if option in _TWO_VALUES and not (option.endswith("env") and "=" in following) else 1

"""The words of bash: the simple commands of a text, as far as they can be determined without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

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
"""Programs that run another one: their options with a value, and how many words are before that program."""
_ENVIRONMENT: Final = frozenset({"-n", "--name", "-p", "--prefix", "--cwd"})
_MOUNTS: Final = frozenset({
    "-B", "--bind", "--env", "--env-file", "-H", "--home", "--pwd", "--cwd", "-W", "--workdir", "-S",
    "--scratch", "-o", "--overlay", "--mount", "--network", "--app",
})  # fmt: skip
_RUNNERS: Final = {
    **dict.fromkeys((("conda", "run"), ("mamba", "run"), ("micromamba", "run")), (_ENVIRONMENT, 0)),
    ("uv", "run"): (
        frozenset({"--with", "--extra", "--group", "-p", "--python", "--project", "--env-file"}),
        0,
    ),
    ("pixi", "run"): (frozenset({"-e", "--environment", "--manifest-path"}), 0),
    **{(name, "run"): (frozenset[str](), 0) for name in ("poetry", "pipenv", "pdm", "rye", "hatch")},
    **dict.fromkeys((("apptainer", "exec"), ("singularity", "exec")), (_MOUNTS, 1)),
}
"""Programs that run another one by a subcommand, as ``_WRAPPERS``."""
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
_SETTERS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_DEEPEST: Final = 4
"""How many levels of nested commands (`bash -c`) are read."""
_LONG: Final = 2000
"""The longest text in which variables are expanded: each could double the length of the last one."""
_PIECE: Final = re.compile(
    r"""
    (?<!<)<<(?!<)-?[^\S\n]*(?P<mark>\w+|'\w+'|"\w+"|\\\w+)  # a heredoc
    | \\\n | [^\S\n]+ | (?<![^\s;&|(){}])\#[^\n]*  # joined lines, space, comments
    | (?P<end>[;&|\n(){}])  # the end of a simple command
    | (?P<word>(?:[^<\s;&|(){}'"`\\$] | \\[^\n]
        | '[^']*' | "(?:[^"\\]|\\.)*" | \$\((?:[^()]|\([^()]*\))*\) | \$\{[^{}]*\} | `[^`]*` | \$)+
        | (?<!<)<(?![<(]))  # words, and where one reads from
    | ['"`].* | .  # half a quotation, and what is left
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NAMED: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_QUOTE: Final = re.compile(r"['\"\\]")
_COMPUTED: Final = re.compile(r"[$`]")


class SimpleCommand(NamedTuple):
    """A simple command: its words as they are written, from its program on; ``before``: those in front.

    ``assigned``: the variables that it sets.
    """

    words: tuple[str, ...]
    assigned: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()


def simple_commands(text: str, depth: int = 0) -> Iterator[SimpleCommand]:
    """Yield the simple commands of a text, those of `bash -c` and `eval` in their place.

    Keywords, and programs such as `time` that only run another one, are omitted.
    """
    words: list[str] = []
    for piece in pieces(text + "\n"):
        if piece["word"]:
            words.append(piece["word"])
        elif piece["end"]:
            yield from commands_of(words, depth)
            words = []


def unquoted(word: str) -> str:
    """Return a word without its quotes."""
    if not _QUOTE.search(word):
        return word
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def is_computed(text: str) -> bool:
    """Whether a word contains an expansion, so that its text is known only when bash runs it."""
    return bool(_COMPUTED.search(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with known variables expanded; a long one is returned unchanged."""
    return (
        text
        if len(text) > _LONG
        else _NAMED.sub(lambda match: values.get(match[1] or match[2], match[0]), text)
    )


def expanded(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with each unquoted known variable replaced by the words of its value."""
    found: list[str] = []
    for word in words:
        match = _NAMED.fullmatch(word)
        found += values.get(match[1] or match[2], word).split() if match else [word]
    return tuple(found)


def known_values(commands: Iterable[SimpleCommand], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have one value throughout, with that value; ``env``: those set before."""
    found: dict[str, set[str]] = {name: {value} for name, value in env.items()}
    for command in commands:
        for name, value in assignments(command):
            found.setdefault(name, set()).add(value)
    known: dict[str, str] = {}
    for name, values in found.items():
        value = filled(values.pop(), known)
        if not values and len(value) <= _LONG:
            known[name] = value
    return known


def assignments(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield the variables that a simple command sets, each with its value."""
    yield from command.assigned
    if command.words and command.words[0] in _SETTERS:
        for word in command.words[1:]:
            if match := _ASSIGNMENT.fullmatch(word):
                yield match[1], unquoted(match[2])


def commands_of(words: Sequence[str], depth: int = 0) -> Iterator[SimpleCommand]:
    """Yield the simple command of these words, or those that it runs itself (`bash -c`)."""
    command = _from_program([*words])
    program, *more = command.words or ("",)
    within = ""
    if _name(program) in _SHELLS:
        within = next((text for flag, text in pairwise(more) if _takes_text(flag)), "")
    elif program == "eval":
        within = " ".join(map(unquoted, more))
    if within and depth < _DEEPEST:
        yield SimpleCommand((), command.assigned)
        yield from simple_commands(unquoted(within) if program != "eval" else within, depth + 1)
    elif command.words or command.assigned:
        yield command


def _takes_text(flag: str) -> bool:
    return bool(re.fullmatch(r"-[a-z]*c", flag))


def pieces(text: str) -> Iterator[re.Match[str]]:
    """Yield the pieces of a command, without the bodies of its heredocs."""
    marks: list[str] = []
    endless: set[str] = set()
    at = 0
    while piece := _PIECE.match(text, at):
        yield piece
        at = piece.end()
        if piece["mark"]:
            marks.append(piece["mark"].strip("'\"\\"))
        elif piece["end"] == "\n":
            for mark in marks:
                body = mark not in endless and re.compile(rf"(?:.*\n)*?\t*{mark}\n").match(text, at)
                at = body.end() if body else at
                endless |= set() if body else {mark}
            marks.clear()


def _from_program(words: list[str]) -> SimpleCommand:
    """Return the command without keywords and programs that only run another one."""
    assigned: list[tuple[str, str]] = []
    whole = words
    while words:
        name = _name(words[0])
        if name in _WRAPPERS:
            words = _after_options(words[1:], *_WRAPPERS[name])
        elif runner := _RUNNERS.get((name, "".join(words[1:2]))):
            words = _after_options(words[2:], *runner)
        elif match := _ASSIGNMENT.fullmatch(words[0]):
            assigned.append((match[1], unquoted(match[2])))
            words = words[1:]
        elif words[0] in _KEYWORDS:
            whole = words = words[1:]
        else:
            break
    return SimpleCommand(tuple(words), tuple(assigned), tuple(whole[: len(whole) - len(words)]))


def _name(word: str) -> str:
    return unquoted(word).rsplit("/", 1)[-1]


def _after_options(words: list[str], with_value: frozenset[str], before: int) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in with_value else 1 :]
    return words[before:]

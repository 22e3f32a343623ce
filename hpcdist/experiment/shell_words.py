"""The words of bash: the simple commands of a text, as far as they can be determined without running it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Final, NamedTuple

# --- Simple commands and their words

_KEYWORDS: Final = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!"})
_WRAPPERS: Final = {
    "command": (frozenset[str](), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ncu": (frozenset({"-o", "--export", "--set", "-k", "-c", "-s"}), 0),
    "nohup": (frozenset[str](), 0),
    "numactl": (frozenset({"-m", "--membind", "-N", "--cpunodebind", "-C", "--physcpubind", "-i",
                           "--interleave", "-p", "--preferred"}), 0),
    "setsid": (frozenset[str](), 0),
    "shifter": (frozenset({"--image", "-V", "--volume", "-m", "--module", "-e", "--env", "--env-file", "-w",
                           "--workdir"}), 0),
    "sudo": (frozenset({"-u", "--user", "-g", "--group"}), 0),
    "strace": (frozenset({"-o", "-e", "-p", "-s"}), 0),
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
_OF_DOCKER: Final = frozenset({
    "-v", "--volume", "-e", "--env", "--env-file", "-w", "--workdir", "--name", "--network", "--net",
    "--shm-size", "--ipc", "--gpus", "--mount", "--device", "-u", "--user", "--ulimit", "--security-opt",
    "--cap-add",
})  # fmt: skip
_OF_NSYS: Final = frozenset({
    "-o", "--output", "-t", "--trace", "-w", "-s", "--sample", "-c", "--capture-range", "-f", "-e",
    "--env-var", "-y", "--delay", "-d", "--duration",
})  # fmt: skip
_RUNNERS: Final = {
    **dict.fromkeys((("conda", "run"), ("mamba", "run"), ("micromamba", "run")), (_ENVIRONMENT, 0)),
    ("nsys", "profile"): (_OF_NSYS, 0),
    ("uv", "run"): (
        frozenset({"--with", "--extra", "--group", "-p", "--python", "--project", "--env-file"}),
        0,
    ),
    ("pixi", "run"): (frozenset({"-e", "--environment", "--manifest-path"}), 0),
    **{(name, "run"): (frozenset[str](), 0) for name in ("poetry", "pipenv", "pdm", "rye", "hatch")},
    **{(name, verb): (_MOUNTS, 1) for name in ("apptainer", "singularity") for verb in ("exec", "run")},
    **dict.fromkeys((("docker", "run"), ("podman", "run"), ("podman-hpc", "run")), (_OF_DOCKER, 1)),
    ("enroot", "start"): (frozenset({"-c", "--conf", "-e", "--env", "-m", "--mount"}), 1),
}
"""Programs that run another one by a subcommand, as ``_WRAPPERS``."""
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
_VALUE_OF_SHELL: Final = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_SETTERS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_DEEPEST: Final = 4
"""How many levels of nested commands (`bash -c`) are read."""
_LONG: Final = 2000
"""The longest text in which variables are expanded: each could double the length of the last one."""
_NESTED: Final = functools.reduce(lambda inner, _: rf"(?:[^()]|\({inner}\))*", range(4), "[^()]*")
"""Text with parentheses in pairs."""
_PIECE: Final = re.compile(
    rf"""
    (?<!<)<<(?!<)-?[^\S\n]*(?P<mark>\w+|'\w+'|"\w+"|\\\w+)  # a heredoc
    | \\\n | [^\S\n]+ | (?<![^\s;&|()])\#[^\n]*  # joined lines, space, comments
    | (?P<end>[;&|\n()] | (?<![^\s;&|()])(?:\{{(?=\s)|\}}(?=[\s;&|()])))  # the end of a simple command
    | (?P<word>(?:[^<\s;&|()'"`\\$] | \\[^\n]
        | '[^']*' | "(?:[^"\\]|\\.)*" | \$\({_NESTED}\) | \$\{{[^{{}}]*\}} | `[^`]*` | \$)+
        | (?<!<)<(?![<(]))  # words, and where one reads from
    | ['"`].* | .  # half a quotation, and what is left
    """,
    re.VERBOSE | re.DOTALL,
)
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ARRAY: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_NAMED: Final = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?\}|(\w+))")
_QUOTE: Final = re.compile(r"['\"\\]")
_INNER: Final = rf"\$\({_NESTED}\) | \$\{{[^{{}}]*\}} | `[^`]*`"
_PART: Final = re.compile(
    rf"""'(?P<literal>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | \\(?P<after>.)
    | (?P<plain>(?:{_INNER} | [^'"\\])+)""",
    re.VERBOSE | re.DOTALL,
)
"""The parts of a word: in single quotes, in double quotes, a character after a backslash, and plain text."""
_EXPANSION: Final = re.compile(
    rf"""\\(?P<escaped>[\\"$`\n]) | \$(?P<name>\w+) | \$\{{(?P<braced>\w+)\}} | {_INNER} | [$`]""", re.VERBOSE
)
_QUOTED: Final = re.compile(rf"""'[^']*' | "(?:[^"\\]|\\.)*" | \\. | {_INNER}""", re.VERBOSE | re.DOTALL)
_BARE: Final = re.compile(r"(?<![\w$])[A-Za-z_]\w*")
"""A variable in an arithmetic expression."""
_REDIRECTS: Final = re.compile(r"[<>]")
_COMPUTED: Final = re.compile(r"[$`]")


class SimpleCommand(NamedTuple):
    """A simple command: its words as they are written, from its program on; ``before``: those in front."""

    words: tuple[str, ...]
    assigned: tuple[tuple[str, str], ...] = ()
    """The variables that it sets."""
    before: tuple[str, ...] = ()


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a text; commands of `bash -c` and `eval` take their place.

    Keywords, and programs such as `time` that only run another one, are omitted. An array is a variable with
    the words of all its elements. A command is read by many checks of one plan, and so kept.
    """
    return tuple(_commands_in(text, 0))


def _commands_in(text: str, depth: int) -> Iterator[SimpleCommand]:
    words: list[str] = []
    in_array = False
    for piece in pieces(text + "\n"):
        if in_array and piece["end"] != ")":
            words[-1] += f" {unquoted(piece['word'])}" if piece["word"] else ""
        elif piece["end"] == "(" and words and _ARRAY.fullmatch(words[-1]):
            in_array, words[-1] = True, words[-1].replace("+=", "=")
        elif piece["word"]:
            words.append(piece["word"])
        elif in_array:
            in_array = False
        elif piece["end"]:
            yield from commands_of(words, depth)
            words = []


def single_command(text: str) -> list[tuple[str, int]]:
    """Return the words of a text that is one simple command, each with its place, none for any other text."""
    found: list[tuple[str, int]] = []
    skipped = len(text) - len(text.lstrip())
    for piece in pieces(text.strip()):
        word = piece["word"]
        if word and not _REDIRECTS.search(_QUOTED.sub("", word)):
            found.append((word, piece.start() + skipped))
        elif word or piece[0].strip(" \t\\\n") or piece["end"]:
            return []
    return found


def unquoted(word: str) -> str:
    """Return a word without its quotes."""
    return expand(word, {}) if _QUOTE.search(word) else word


def is_computed(text: str) -> bool:
    """Whether a word contains an expansion, so that its text is known only when bash runs it."""
    return bool(_COMPUTED.search(text))


def expand(word: str, values: Mapping[str, str], unknown: Callable[[str], str] = str) -> str:
    """Return a word without its quotes, with known variables replaced.

    ``unknown`` returns the text of any other expansion, which by default stays as it is. A word with half a
    quotation is returned unchanged; of a word longer than ``_LONG`` nothing is replaced.
    """
    known = values if len(word) <= _LONG else {}

    def replaced(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match["escaped"].strip("\n")
        name = match["name"] or match["braced"]
        if name in known:
            return known[name]
        text = match[0]
        return unknown(_BARE.sub(lambda one: known.get(one[0], one[0]), text) if text[:3] == "$((" else text)

    parts = [*_PART.finditer(word)]
    if sum(len(part[0]) for part in parts) != len(word):
        return word
    return "".join(
        part["literal"] or part["after"] or _EXPANSION.sub(replaced, part["double"] or part["plain"] or "")
        for part in parts
    )


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with known variables expanded; a long one is returned unchanged."""
    return (
        text
        if len(text) > _LONG
        else _NAMED.sub(lambda match: values.get(match[1] or match[2], match[0]), text)
    )


def expanded(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with each unquoted known variable, and array, replaced by the words of its value."""
    found: list[str] = []
    for word in words:
        match = _NAMED.fullmatch(word.strip('"') if "[" in word else word)
        value = values.get(match[1] or match[2]) if match else None
        found += [word] if value is None else [one["word"] for one in pieces(value) if one["word"]]
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
            if match := ASSIGNMENT.fullmatch(word):
                yield match[1], unquoted(match[2])


def commands_of(words: Sequence[str], depth: int = 0) -> Iterator[SimpleCommand]:
    """Yield the simple command of these words, or those that it runs itself (`bash -c`)."""
    command = _from_program([*words])
    program, *more = command.words or ("",)
    within = ""
    if _name(program) in _SHELLS:
        within = _text_of_shell(more)
    elif program == "eval":
        within = " ".join(map(unquoted, more))
    if within and depth < _DEEPEST:
        yield SimpleCommand((), command.assigned)
        yield from _commands_in(unquoted(within) if program != "eval" else within, depth + 1)
    elif command.words or command.assigned:
        yield command


def _text_of_shell(words: Sequence[str]) -> str:
    """Return the text that a shell gets by `-c`, empty where it reads a file."""
    at = 0
    while at < len(words) and words[at][0] in "-+":
        if re.fullmatch(r"-[a-z]*c", words[at]):
            return words[at + 1] if at + 1 < len(words) else ""
        at += 2 if words[at] in _VALUE_OF_SHELL else 1
    return ""


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


def heredoc_lines(text: str) -> set[int]:
    """Return the numbers of the lines that belong to heredocs, with those of their marks."""
    found: set[int] = set()
    at = 0
    for start, end in [*((piece.start(), piece.end()) for piece in pieces(text)), (len(text), len(text))]:
        if start > at:
            found.update(range(text.count("\n", 0, at) + 1, text.count("\n", 0, start) + 1))
        at = end
    return found


def _from_program(words: list[str]) -> SimpleCommand:
    """Return the command without keywords and programs that only run another one."""
    assigned: list[tuple[str, str]] = []
    whole = words
    while words:
        name = _name(words[0])
        if name == "command" and words[1:2] and words[1] in ("-v", "-V"):
            break
        if name in _WRAPPERS:
            words = _after_options(words[1:], *_WRAPPERS[name])
        elif runner := _RUNNERS.get((name, "".join(words[1:2]))):
            words = _after_options(words[2:], *runner)
        elif match := ASSIGNMENT.fullmatch(words[0]):
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


# --- Lines that set the shell up

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
_SETS_VARIABLE: Final = re.compile(r"\w+=.*", re.DOTALL)
_RUNS_COMMAND: Final = re.compile(r"""["']?(?:\$\(|`)""")
_DEPTHS: Final = {"if": 1, "then": 0, "elif": 0, "else": 0, "!": 0, "fi": -1}


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
        own = [*dropwhile(_DEPTHS.__contains__, statement.words)]
        if statement.before in ("", "|", "&") or not statement.words or not _sets_up(own):
            return place
        depth += _DEPTHS.get(statement.words[0], 0)
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
        return bool(_RUNS_COMMAND.match(own[-1]))
    if first == "[[":
        return own[-1] == "]]"
    return first in _SETS_UP or all(_SETS_VARIABLE.fullmatch(word) for word in own)

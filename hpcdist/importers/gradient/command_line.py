"""The command line of Gradient itself: ``experiments create multinode --name x --experimentType MPI ...``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import ConfigError, Place, Problem, did_you_mean
from hpcdist.importers.gradient.options import (
    COUNTS,
    FLAGS,
    HIDDEN,
    OF_JOB,
    OF_MULTINODE,
    OF_SINGLENODE,
    REPEATED,
    SEARCH,
    SECRETS,
)

_LINE: Final = Place("command line", 0, 0)
_TOOLS: Final = frozenset({"gradient", "paperspace", "paperspace-python"})
_VERBS: Final = ("create", "run", "createAndStart")
_KINDS: Final = {"singlenode": OF_SINGLENODE, "multinode": OF_MULTINODE, "mpi": OF_MULTINODE}
_COMMANDS: Final[dict[tuple[str, ...], frozenset[str]]] = {
    **{("experiments", verb, kind): options for verb in _VERBS for kind, options in _KINDS.items()},
    ("jobs", "create"): OF_JOB,
}
"""The options of each command that starts a batch job."""
_TYPES: Final = {"experimentType", "experimentTypeId"}
_FILES: Final = {
    "createOptionsFile": "it writes a template and no experiment: remove it",
    "help": "remove it",
}
_UNSUPPORTED: Final = {
    ("experiments", "hyperparameters"): SEARCH,
    ("hyperparameters",): SEARCH,
    ("deployments",): ("this is a deployment, which serves a model: hpcdist runs batch jobs only", ""),
    ("notebooks",): ("this is a notebook: a batch job has no browser", ""),
    ("workflows",): ("a workflow is in a file of its own", "give that file to `hpcdist submit`"),
}  # fmt: skip
_FORMS: Final = "write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`"
_NOT_KEPT: Final = "(not kept)"
"""The value of secrets, none of which is needed."""
_BOOLEANS: Final = {"true": True, "false": False}
_DIGITS: Final = 10
_SHOWN: Final = re.compile(r"[!-~]{1,40}")


def parse(words: Sequence[str]) -> Map:
    """Return the options file that is equivalent to a command line, with or without the name of the tool.

    Pure: no file is read, and ``optionsFile`` stays an option. The place of each value is its option.

    Raises:
        ConfigError: for a command that starts no job, an unknown option, a missing value.
    """
    rest = list(words)
    for word in rest:
        _check_text(word)
    if rest and rest[0].rsplit("/", 1)[-1] in _TOOLS:
        rest = rest[1:]
    command = _command(rest)
    data = Map(place=_LINE)
    if command[-1] == "mpi":
        data.put("experimentType", "MPI", _LINE)
    rest = rest[len(command) :]
    while rest:
        rest = _option(data, rest, command)
    if command[-1] == "multinode" and not data.keys() & {*_TYPES, "optionsFile"}:
        _fail("--experimentType is missing", "write --experimentType MPI, or GRPC for parameter servers")
    return data


def _check_text(word: str) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:
        _fail(f"{word!a} is not text in UTF-8", "")


def _command(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command, without its options."""
    for start, reasons in _UNSUPPORTED.items():
        if tuple(words[: len(start)]) == start:
            _fail(*reasons)
    for command in _COMMANDS:
        if tuple(words[: len(command)]) == command:
            return command
    for index in range(3):
        word = words[index] if index < len(words) and words[index][:1] != "-" else ""
        allowed = {command[index] for command in _COMMANDS if command[:index] == tuple(words[:index])}
        if word not in allowed:
            message = (
                f"`{' '.join(words[: index + 1])}` starts no job" if word else "the command is incomplete"
            )
            near = did_you_mean(word, allowed) if word else ""
            _fail(message, near if near.startswith("did") else _FORMS)
    raise AssertionError(words)


def _option(data: Map, words: list[str], command: tuple[str, ...]) -> list[str]:
    """Take the first option with its value; return the words behind it."""
    word, equals, glued = words[0].partition("=")
    name, rest = word.removeprefix("--"), words[1:]
    if not word.startswith("--") or not name:
        _fail(f"{words[0]!r} is not an option", "put quotes around a command of several words")
    if name in _FILES:
        _fail(f"--{name} is not read here", _FILES[name])
    if name not in _COMMANDS[command] and name != "optionsFile":
        _fail(f"`{' '.join(command)}` has no option --{name}", _nearest(name, command))
    if name in FLAGS and f"{name}_set" in _COMMANDS[command] and equals:
        name = f"{name}_set"  # as gradient-cli does with `--tensorboard=ID`
    if name in FLAGS:
        text = glued if equals else rest.pop(0) if rest and rest[0].lower() in _BOOLEANS else "true"
        if text.lower() not in _BOOLEANS:
            _fail(f"--{name} is true or false, not {text!r}", f"write --{name}")
        data.put(name, _BOOLEANS[text.lower()], Place(f"--{name}", 0, 0))
        return rest
    if not equals and not rest:
        _fail(f"--{name} needs a value", f"write --{name} VALUE")
    value = glued if equals else rest.pop(0)
    _put(data, name, _NOT_KEPT if name in SECRETS else _value(name, value), value)
    return rest


def _nearest(name: str, command: tuple[str, ...]) -> str:
    other = next((other for other, known in _COMMANDS.items() if name in known), ())
    if other:
        return f"`{' '.join(other)}` has it"
    hint = did_you_mean(name, _COMMANDS[command])
    return hint if hint.startswith("did") else "remove it"


def _value(name: str, text: str) -> object:
    is_number = name in COUNTS and text.isascii() and text.isdecimal() and len(text) < _DIGITS
    return int(text) if is_number else text


def _put(data: Map, name: str, value: object, text: str) -> None:
    shows = name not in HIDDEN and _SHOWN.fullmatch(text)
    place = Place(f"--{name}={text}" if shows else f"--{name}", 0, 0)
    if name in REPEATED:
        if name not in data:
            data.put(name, Seq(place=place), place)
        data[name].add(value, place)
    elif name in data:
        _fail(f"--{name} is given twice", "write it once")
    else:
        data.put(name, value, place)


def _fail(message: str, hint: str) -> NoReturn:
    raise ConfigError(Problem(message, hint=hint, place=_LINE))

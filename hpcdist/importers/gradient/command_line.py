"""The command line of Gradient itself: ``experiments create multinode --name x --experimentType MPI ...``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import ConfigError, Place, Problem, did_you_mean
from hpcdist.importers.gradient.options import COUNTS, FLAGS, HIDDEN, OF_MULTINODE, OF_SINGLENODE, REPEATED

_LINE: Final = Place("command line", 0, 0)
_TOOLS: Final = frozenset({"gradient", "paperspace", "paperspace-python"})
_VERBS: Final = ("create", "run", "createAndStart")
_KINDS: Final = {"singlenode": OF_SINGLENODE, "multinode": OF_MULTINODE, "mpi": OF_MULTINODE}
_TYPES: Final = {"experimentType", "experimentTypeId"}
_FILES: Final = {
    "optionsFile": "write `hpcdist import FILE`, and each other option as `--set 'OPTION=VALUE'`",
    "createOptionsFile": "it writes a template and no experiment: remove it",
    "help": "remove it",
}
_UNSUPPORTED: Final = {
    ("experiments", "hyperparameters"): (
        "a search over hyperparameters is many jobs", "import one experiment, and give it `batch.array`",
    ),
    ("jobs", "create"): (
        "`jobs create` is not read", "write `experiments create singlenode`, which has most of its options",
    ),
}  # fmt: skip
_DIGITS: Final = 10
_SHOWN: Final = re.compile(r"[!-~]{1,40}")


def parse(words: Sequence[str]) -> Map:
    """Return the options file that is equivalent to a command line, with or without the name of the tool.

    Pure: no file is read. The place of each value is its option.

    Raises:
        ConfigError: for a command that makes no experiment, an unknown option, a missing value.
    """
    rest = list(words)
    for word in rest:
        _check_text(word)
    if rest and rest[0].rsplit("/", 1)[-1] in _TOOLS:
        rest = rest[1:]
    kind = _kind(rest[:3])
    data = Map(place=_LINE)
    if kind == "mpi":
        data.put("experimentType", "MPI", _LINE)
    rest = rest[3:]
    while rest:
        rest = _option(data, rest, kind)
    if kind == "multinode" and not data.keys() & _TYPES:
        _fail("--experimentType is missing", "write --experimentType MPI, or GRPC for parameter servers")
    return data


def _check_text(word: str) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:
        _fail(f"{word!a} is not text in UTF-8", "")


def _kind(words: Sequence[str]) -> str:
    if tuple(words[:2]) in _UNSUPPORTED:
        _fail(*_UNSUPPORTED[words[0], words[1]])
    choices: tuple[tuple[str, ...], ...] = (("experiments",), _VERBS, tuple(_KINDS))
    for index, allowed in enumerate(choices):
        word = words[index] if index < len(words) else ""
        if word not in allowed:
            message = f"unknown command {word!r}" if word else "the command is incomplete"
            near = did_you_mean(word, allowed) if word else ""
            hint = near if near.startswith("did") else "write `experiments create multinode --name ...`"
            _fail(message, hint)
    return words[2]


def _option(data: Map, words: list[str], kind: str) -> list[str]:
    """Take the first option with its value; return the words behind it."""
    word, _, glued = words[0].partition("=")
    name = word.removeprefix("--")
    if not word.startswith("--") or not name:
        _fail(f"{words[0]!r} is not an option", "put quotes around a command of several words")
    if name in _FILES:
        _fail(f"--{name} is not read here", _FILES[name])
    if name not in _KINDS[kind]:
        _fail(f"`experiments create {kind}` has no option --{name}", _nearest(name, kind))
    if name in FLAGS:
        if "=" in words[0]:
            _fail(f"--{name} has no value", f"write --{name}")
        data.put(name, True, Place(f"--{name}", 0, 0))  # noqa: FBT003
        return words[1:]
    if "=" in words[0]:
        _put(data, name, _value(name, glued), glued)
        return words[1:]
    if len(words) == 1:
        _fail(f"--{name} needs a value", f"write --{name} VALUE")
    _put(data, name, _value(name, words[1]), words[1])
    return words[2:]


def _nearest(name: str, kind: str) -> str:
    hint = did_you_mean(name, _KINDS[kind])
    others = (other for other, known in _KINDS.items() if name in known)
    other = next(others, "")
    if other:
        return f"`experiments create {other}` has it"
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

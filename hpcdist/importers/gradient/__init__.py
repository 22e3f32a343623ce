"""Jobs and experiments of Paperspace Gradient, by their options: one node, parameter servers, MPI.

The keys are the long options of the command line, which `hpcdist.importers.gradient` reads
(https://github.com/Paperspace/gradient-cli; https://docs.paperspace.com/gradient, of 2019 to 2021).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from hpcdist.base.errors import ConfigError, Key, Path, Place, Problem, did_you_mean
from hpcdist.base.tree import Map, Seq
from hpcdist.importers import Form, Imported
from hpcdist.importers.gradient.options import (
    BUILDS,
    COUNTS,
    FLAGS,
    HIDDEN,
    IGNORED,
    KNOWN,
    OF_JOB,
    OF_MULTINODE,
    OF_SINGLENODE,
    REPEATED,
    SEARCH,
    SECRETS,
    SECTIONS,
    SINGLE,
    CIOptions,
    ci_form,
    ci_steps,
    common_fields,
)
from hpcdist.importers.gradient.replicas import put_mpi, put_parameter_servers, put_single
from hpcdist.importers.job import ForeignJob
from hpcdist.importers.reading import Reading, one_of

# --- The command line of Gradient itself: ``experiments create multinode --name x --experimentType MPI ...``

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
    ("workflows",): ("a workflow fetches and stores data for its jobs, which a batch job does not",
                     "write the script of a job as `run.cmd` of an experiment"),
}  # fmt: skip
_FORMS: Final = "write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`"
_NOT_KEPT: Final = "(not kept)"
"""The value of secrets, which are not needed."""
_BOOLEANS: Final = {"true": True, "false": False}
_DIGITS: Final = 10
_SHOWN: Final = re.compile(r"[!-~]{1,40}")
_OPTIONS_FILE: Final = "optionsFile"


def parse(words: Sequence[str]) -> Map:
    """Return the options file equivalent to a command line, with or without the name of the tool.

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
    if command[-1] == "multinode" and not data.keys() & {*_TYPES, _OPTIONS_FILE}:
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
            _fail(message, did_you_mean(word, allowed, otherwise=_FORMS) if word else _FORMS)
    raise AssertionError(words)


def _option(data: Map, words: list[str], command: tuple[str, ...]) -> list[str]:
    """Take the first option with its value; return the words after it."""
    word, equals, glued = words[0].partition("=")
    name, rest = word.removeprefix("--"), words[1:]
    if not word.startswith("--") or not name:
        _fail(f"{words[0]!r} is not an option", "put quotes around a command of several words")
    if name in _FILES:
        _fail(f"--{name} is not read here", _FILES[name])
    if name not in _COMMANDS[command] and name != _OPTIONS_FILE:
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
    return did_you_mean(name, _COMMANDS[command], otherwise="remove it")


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


# --- Jobs and experiments of Paperspace Gradient

_DEPLOYMENT: Final = "this is a deployment, which serves a model: hpcdist runs batch jobs only"
_OTHERS: Final = {
    "tuningCommand": SEARCH,
    "deploymentType": (_DEPLOYMENT, ""),
    "instanceCount": (_DEPLOYMENT, ""),
    "shutdownTimeout": ("this is a notebook: a batch job has no browser", ""),
}
"""Options of Gradient's other commands, and why those are not run."""
_MULTINODE_ONLY: Final = KNOWN - OF_SINGLENODE - OF_JOB - {"datasets", "experimentType", "experimentTypeId"}
_GRADIENT_TYPES: Final = {
    **dict.fromkeys(("GRPC", "MULTI-GRPC"), "GRPC"),
    **dict.fromkeys(("MPI", "MULTI-MPI"), "MPI"),
    **dict.fromkeys(("SINGLE", "SINGLENODE"), "single"),
    "2": "GRPC",
    "3": "MPI",
    "1": "single",
    "4": "search",
    "HPT": "search",
}
_MARKS: Final = frozenset({"workerCommand", "masterCommand", "parameterServerCommand", "experimentType",
                           "experimentTypeId", "tuningCommand"})  # fmt: skip


class Gradient(Form):
    """The importer of Gradient's options files, and of an experiment in a file of its CI or a workflow.

    An options file may leave options to the command line, as Gradient does with ``--optionsFile``.
    """

    settings = (KNOWN - {"name", "tags"}) | SECTIONS

    def recognises(self, data: Map) -> bool:
        """Decide by the options of such a file, or by the keys of a file of GradientCI."""
        if any(key in data for key in ("apiVersion", "$schema", "kind", "run", "spec", "functions")):
            return False
        single = "machineType" in data and any(key in data for key in ("command", "container", *_OTHERS))
        return single or _is_deployment(data) or any(key in data for key in _MARKS) or bool(ci_form(data))

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file has several experiments, or no command, or is something else.
        """
        if _is_deployment(data):
            raise ConfigError(Problem(_DEPLOYMENT, ("resources",), place=data.place_of("resources")))
        if ci_form(data):
            options = CIOptions(data)
            found = options.imported(_read(options.data))
        else:
            found = _read(data)
        if "cmd" not in (found.data.get("run") or ()):
            raise ConfigError(*found.remarks)
        return found

    def jobs(self, data: Map) -> dict[str, Map]:
        """Return the steps of GradientCI."""
        return one_of(ci_steps(data), data)

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the options file of a command line."""
        name = data.get(_OPTIONS_FILE)
        return ((_OPTIONS_FILE,), name) if isinstance(name, str) and name else None

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with those options; options of the command line take precedence."""
        merged = data.copy()
        merged.drop(_OPTIONS_FILE)
        for option in (option for option in other if option not in data):
            merged.copy_from(other, option)
        return merged

    def from_command_line(self, words: Sequence[str]) -> Map:
        """Return the options file that is equivalent to a command line, as `parse`."""
        return parse(words)


IMPORTER: Final = Gradient()


def _read(data: Map) -> Imported:
    """Return the native form of options."""
    for name, (message, hint) in _OTHERS.items():
        if data.get(name) is not None:
            raise ConfigError(Problem(message, (name,), hint, place=data.place_of(name)))
    read = Reading(data)
    given = {key for key, value in data.items() if not _is_empty(value)}
    for key in data.keys() - given:
        read.get(key)  # `--createOptionsFile` writes options that are not given
    _refuse_unknown(read, given)
    for key in (key for key in BUILDS if key in given):
        read.refuse(key, why="no image is built here", hint=BUILDS[key])
    job = ForeignJob()
    common_fields(read, job, given)
    _put_layout(read, job, given)
    job.write(read)
    for key, why in IGNORED.items():
        if key in given:
            read.ignore(key, why=why)
    return read.finish()


def _is_deployment(data: Map) -> bool:
    """Tell whether this is the specification of a deployment."""
    resources = data.get("resources")
    return "image" in data and isinstance(resources, Map) and "instanceType" in resources


def _is_empty(value: object) -> bool:
    return value in (None, "", [], {}) or value is False


def _refuse_unknown(read: Reading, given: set[str]) -> None:
    for key in read.data:
        if key in given and key not in KNOWN:
            why = f"Gradient's experiments have no option {key!r}"
            read.refuse(Key(key), why=why, hint=did_you_mean(key, KNOWN, otherwise="remove it"))


def _put_layout(read: Reading, job: ForeignJob, given: set[str]) -> None:
    kind = _kind(read, given)
    if kind == "single":
        for key in sorted(given & _MULTINODE_ONLY):
            if key not in IGNORED:
                read.refuse(Key(key), why=f"an experiment of one node has no {key}", hint="remove it")
        put_single(read, job)
    elif kind:
        for key in (key for key in SINGLE if key in given):
            hint = f"write {'worker' + key[0].upper() + key[1:]}"
            read.refuse(Key(key), why=f"{key} is for one node, and this has several", hint=hint)
        (put_mpi if kind == "MPI" else put_parameter_servers)(read, job, given)
    else:
        for key in given:
            read.get(key)


def _kind(read: Reading, given: set[str]) -> str:
    """Return GRPC, MPI or single; empty if it was refused."""
    for key in ("experimentType", "experimentTypeId"):
        if key in given:
            found = _GRADIENT_TYPES.get(str(read.text(key)).upper(), "")
            if found in {"", "search"}:
                other = f"{read.text(key)!r} is not an experiment type", "write GRPC or MPI"
                why, hint = SEARCH if found else other
                read.refuse(key, why=why, hint=hint)
                return ""
            return found
    for key, kind in (("masterCommand", "MPI"), ("parameterServerCommand", "GRPC")):
        if key in given:
            read.warn(key, why=f"experimentType is missing, and {kind} is assumed", hint="write it")
            return kind
    if "workerCommand" in given and "command" not in given:
        read.refuse("workerCommand", why="the experimentType is missing", hint="write GRPC or MPI as such")
        return ""
    return "single"

"""Experiments of Paperspace Gradient: one node, gRPC (parameter servers) and MPI, by their options files.

The keys are the long options of the command line, which `hpcdist.importers.gradient.words` reads itself
(https://github.com/Paperspace/gradient-cli; https://docs.paperspace.com/gradient, of 2019 to 2021).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hpcdist.errors import ConfigError, Key, Problem, did_you_mean
from hpcdist.importers import Imported
from hpcdist.importers.gradient import words as command_line
from hpcdist.importers.gradient.fields import common_fields
from hpcdist.importers.gradient.options import IGNORED, KNOWN, OF_SINGLENODE, SINGLE
from hpcdist.importers.gradient.roles import put_mpi, put_parameter_servers, put_single
from hpcdist.importers.reading import Reading
from hpcdist.tree import Map

_PARAMS: Final = "write the `params` of the step that you want as a file of their own"
_HYPER: Final = "a search over hyperparameters is many jobs"
_ARRAY: Final = "write one experiment and its array yourself, as `batch.array`"
_ACTION: Final = re.compile(r"[\w-]+@v\d+")
_OTHERS: Final = {
    "tuningCommand": (_HYPER, _ARRAY),
    "deploymentType": ("this is a deployment: it serves a model, and a batch job serves nobody", ""),
    "instanceCount": ("this is a deployment: it serves a model, and a batch job serves nobody", ""),
    "shutdownTimeout": ("this is a notebook: a batch job has no browser", ""),
}
"""Options of Gradient's other commands, and why those are not run."""
_CI_TYPES: Final = ("single", "multi-grpc", "multi-mpi", "mpi")
_OF_SEVERAL: Final = KNOWN - OF_SINGLENODE - {"datasets", "experimentType", "experimentTypeId"}
_TYPES: Final = {
    "GRPC": "GRPC",
    "MPI": "MPI",
    "2": "GRPC",
    "3": "MPI",
    "1": "single",
    "4": "search",
    "HPT": "search",
}
_MARKS: Final = frozenset({"workerCommand", "masterCommand", "parameterServerCommand", "experimentType",
                           "experimentTypeId", "tuningCommand"})  # fmt: skip


class Gradient:
    """The importer of Gradient's options files; its workflows and CI files are named and refused."""

    def recognises(self, data: Map) -> bool:
        """Tell by the options that such a file has, or by what marks a workflow."""
        if any(key in data for key in ("apiVersion", "$schema", "kind", "run", "spec", "functions")):
            return False
        single = "machineType" in data and any(key in data for key in ("command", "container", *_OTHERS))
        return single or any(key in data for key in _MARKS) or bool(_workflow(data))

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is a workflow or something else that is no experiment.
        """
        _check_form(data)
        read = Reading(data)
        for key, value in data.items():
            if value in (None, "", [], {}) or value is False:
                read.get(key)  # as `--createOptionsFile` writes what is not given
        given = {key for key in data if data[key] not in (None, "", [], {}) and data[key] is not False}
        _refuse_unknown(read, given)
        common_fields(read, given)
        _put_layout(read, given)
        for key, why in IGNORED.items():
            if key in given:
                read.ignore(key, why=why)
        return read.finish()

    def from_words(self, words: Sequence[str]) -> Map:
        """Return the options file that says the same as a command line, as `command_line.from_words`."""
        return command_line.from_words(words)


IMPORTER: Final = Gradient()


def _workflow(data: Map) -> str:
    """Return the key that tells a workflow or a CI file, nothing where there is none."""
    steps = _values(data.get("workflows"))
    if any("steps" in item for item in steps if isinstance(item, Mapping)):
        return "workflows"
    worker = data.get("worker")
    if isinstance(worker, Mapping) and ("machine-type" in worker or data.get("type") in _CI_TYPES):
        return "worker"
    jobs = _values(data.get("jobs"))
    uses = [item.get("uses") for item in jobs if isinstance(item, Mapping) and "steps" not in item]
    return "jobs" if any(isinstance(item, str) and _ACTION.fullmatch(item) for item in uses) else ""


def _values(section: Any) -> list[Any]:
    return list(section.values()) if isinstance(section, Mapping) else []


def _check_form(data: Map) -> None:
    """Refuse what is no experiment, with the reason."""
    key = _workflow(data)
    if key == "workflows":
        names = [command for flow in _values(data["workflows"]) for command in _commands(flow)]
        told = f" ({', '.join(dict.fromkeys(names))})" if names else ""
        message = f"this is a file of GradientCI, which runs steps{told} for each commit"
        raise ConfigError(Problem(message, (key,), _PARAMS, place=data.place_of(key)))
    if key == "worker":
        message = "this is a file of GradientCI's first version, which runs for each commit"
        hint = "write its worker as workerContainer, workerMachineType and workerCommand"
        raise ConfigError(Problem(message, (key,), hint, place=data.place_of(key)))
    if key == "jobs":
        message = "this is a workflow of Gradient: several jobs that hand on what they write"
        hint = "write one experiment for each job, and chain them with `batch.dependency`"
        raise ConfigError(Problem(message, (key,), hint, place=data.place_of(key)))
    for name, (message, hint) in _OTHERS.items():
        if data.get(name) is not None:
            raise ConfigError(Problem(message, (name,), hint, place=data.place_of(name)))


def _commands(flow: Any) -> list[str]:
    steps = flow.get("steps") if isinstance(flow, Mapping) else None
    items = steps if isinstance(steps, list) else []
    return [str(item["command"]) for item in items if isinstance(item, Mapping) and "command" in item]


def _refuse_unknown(read: Reading, given: set[str]) -> None:
    for key in read.data:
        if key in given and key not in KNOWN:
            why = f"Gradient's experiments have no option {key!r}"
            read.refuse(Key(key), why=why, hint=did_you_mean(key, KNOWN))


def _put_layout(read: Reading, given: set[str]) -> None:
    kind = _kind(read, given)
    if kind == "single":
        for key in sorted(given & _OF_SEVERAL):
            if key not in IGNORED:
                read.refuse(Key(key), why=f"an experiment of one node has no {key}", hint="remove it")
        put_single(read)
    elif kind:
        for key in (key for key in SINGLE if key in given):
            hint = f"write {'worker' + key[0].upper() + key[1:]}"
            read.refuse(Key(key), why=f"{key} is for one node, and this has several", hint=hint)
        (put_mpi if kind == "MPI" else put_parameter_servers)(read, given)
    else:
        for key in given:
            read.get(key)


def _kind(read: Reading, given: set[str]) -> str:
    """Return GRPC, MPI or single; nothing where that was refused."""
    for key in ("experimentType", "experimentTypeId"):
        if key in given:
            found = _TYPES.get(str(read.text(key)).upper(), "")
            if found in {"", "search"}:
                why = _HYPER if found else f"{read.text(key)!r} is no type of an experiment"
                read.refuse(key, why=why, hint=_ARRAY if found else "write GRPC or MPI")
                return ""
            return found
    for key, kind in (("masterCommand", "MPI"), ("parameterServerCommand", "GRPC")):
        if key in given:
            read.warn(key, why=f"without an experimentType this is taken for {kind}", hint="write it")
            return kind
    if "workerCommand" in given and "command" not in given:
        read.refuse("workerCommand", why="the experimentType is missing", hint="write GRPC or MPI as such")
        return ""
    return "single"

"""Jobs and experiments of Paperspace Gradient: one node, parameter servers (gRPC), MPI, by their options.

The keys are the long options of the command line, which `hpcdist.importers.gradient.command_line` reads
(https://github.com/Paperspace/gradient-cli; https://docs.paperspace.com/gradient, of 2019 to 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Key, Path, Problem, did_you_mean
from hpcdist.importers import Imported, Step
from hpcdist.importers.gradient import ci, command_line, named_files, workflow
from hpcdist.importers.gradient.fields import common_fields
from hpcdist.importers.gradient.mpi import put_mpi
from hpcdist.importers.gradient.options import BUILDS, IGNORED, KNOWN, OF_JOB, OF_SINGLENODE, SEARCH, SINGLE
from hpcdist.importers.gradient.roles import put_parameter_servers, put_single
from hpcdist.importers.reading import Reading, one_of

_DEPLOYMENT: Final = "this is a deployment, which serves a model: hpcdist runs batch jobs only"
_OTHERS: Final = {
    "tuningCommand": SEARCH,
    "deploymentType": (_DEPLOYMENT, ""),
    "instanceCount": (_DEPLOYMENT, ""),
    "shutdownTimeout": ("this is a notebook: a batch job has no browser", ""),
}
"""Options of Gradient's other commands, and why those are not run."""
_MULTINODE_ONLY: Final = KNOWN - OF_SINGLENODE - OF_JOB - {"datasets", "experimentType", "experimentTypeId"}
_TYPES: Final = {
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


class Gradient:
    """The importer of Gradient's options files, and of an experiment in a file of its CI or a workflow.

    An options file may leave options to the command line, as a run of Gradient's with ``--optionsFile`` did.
    """

    settings: Final = (KNOWN - {"name", "tags"}) | ci.SECTIONS

    def recognises(self, data: Map) -> bool:
        """Decide by the options of such a file, or by the keys of a workflow."""
        if any(key in data for key in ("apiVersion", "$schema", "kind", "run", "spec", "functions")):
            return False
        single = "machineType" in data and any(key in data for key in ("command", "container", *_OTHERS))
        return single or _is_deployment(data) or any(key in data for key in _MARKS) or bool(ci.form_of(data))

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is several experiments, something else, or has no command.
        """
        if _is_deployment(data):
            raise ConfigError(Problem(_DEPLOYMENT, ("resources",), place=data.place_of("resources")))
        if ci.form_of(data):
            options = ci.options_of(data)
            found = options.imported(_read(options.data))
        else:
            found = _read(data)
        if "cmd" not in (found.data.get("run") or ()):
            raise ConfigError(*found.remarks)
        return found

    def jobs(self, data: Map) -> dict[str, Map]:
        """Return the steps of GradientCI and the jobs of workflows, as `ContainsJobs.jobs`."""
        return one_of(ci.jobs_of(data), data)

    def steps(self, data: Map) -> Sequence[Step]:
        """Return the jobs of a workflow, as `ContainsPipeline.steps`."""
        return workflow.steps_of(data)

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the file of further options, as `NamesFile.file_named_in`."""
        return named_files.file_named_in(data)

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with those options."""
        return named_files.with_named_file(data, other)

    def from_command_line(self, words: Sequence[str]) -> Map:
        """Return the options file that is equivalent to a command line, as `command_line.parse`."""
        return command_line.parse(words)


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
    common_fields(read, given)
    _put_layout(read, given)
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
            near = did_you_mean(key, KNOWN)
            read.refuse(Key(key), why=why, hint=near if near.startswith("did") else "remove it")


def _put_layout(read: Reading, given: set[str]) -> None:
    kind = _kind(read, given)
    if kind == "single":
        for key in sorted(given & _MULTINODE_ONLY):
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

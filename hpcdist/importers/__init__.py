"""Importers: convert a file of another system to the data of an experiment.

Each form is one module of this package; further ones come from plug-ins (entry points ``hpcdist.importers``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, runtime_checkable

from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Path, Place, Problem
from hpcdist.registry import Registry


class Imported(NamedTuple):
    """The data in the native form, and the remarks about the foreign file.

    The paths of the remarks are those of the foreign file; every entry of ``data`` keeps its place.
    ``origins``: for native keys, the keys of the foreign file that they come from.
    """

    data: Map
    remarks: tuple[Problem, ...] = ()
    origins: Mapping[Path, Path] = MappingProxyType({})


class Importer(Protocol):
    """One foreign form; both methods are pure and leave ``data`` as it is."""

    def recognises(self, data: Map) -> bool:
        """Return whether the file has this form, by its keys alone."""
        ...

    def read(self, data: Map) -> Imported:
        """Return the native form; what has no equivalent becomes a remark, an error where it matters.

        Keys that the form does not know stay in place, so that the model names them.
        """
        ...


@runtime_checkable
class ReadsCommandLine(Protocol):
    """An importer that also reads a job from a command line of the foreign tool."""

    def from_command_line(self, words: Sequence[str]) -> Map:
        """Return the data that ``read`` takes; ``words`` are those after the name of the tool.

        A place in it has the option as its file, and line 0.

        Raises:
            ConfigError: when the words are no such command.
        """
        ...


@runtime_checkable
class TakesSettings(Protocol):
    """An importer of a form in which settings of a job are often outside its file.

    ``settings`` are keys at the top of the foreign file: ``--set`` of what begins with one of them changes
    that file, before it is read, and not the experiment.
    """

    settings: frozenset[str]


@runtime_checkable
class ChoosesSettings(Protocol):
    """An importer as `TakesSettings`, whose keys depend on the file."""

    def settings_of(self, data: Map) -> frozenset[str]:
        """Return the keys of this file that are as `TakesSettings.settings`."""
        ...


@runtime_checkable
class ContainsJobs(Protocol):
    """An importer of a form in which one document may contain several named jobs."""

    def jobs(self, data: Map) -> Mapping[str, Map]:
        """Return, for each name that one job has, the document without the other jobs; every path stays."""
        ...


@runtime_checkable
class NamesFile(Protocol):
    """An importer of a form in which a part of the job may be in another file."""

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the key that names a file, and its path from the folder of this one; None without one."""
        ...

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with those of the named file."""
        ...


class Step(NamedTuple):
    """A job of a pipeline: a document of the same form with it alone, and what it waits for, with its place.

    In its texts ``{{ ops.NAME.outputs.path }}`` is the folder of what another one keeps.
    """

    name: str
    data: Map
    needs: tuple[tuple[str, Place | None], ...] = ()


@runtime_checkable
class ContainsPipeline(Protocol):
    """An importer of a form in which a document may be a pipeline: several jobs that wait for each other."""

    def steps(self, data: Map) -> Sequence[Step]:
        """Return the jobs, none of a document that is no pipeline.

        Raises:
            ConfigError: with what of it no batch system runs.
        """
        ...


_BUILTIN: Final = {
    "azure": "hpcdist.importers.azure:IMPORTER",
    "mlrun": "hpcdist.importers.mlrun:IMPORTER",
    "polyaxon_v1": "hpcdist.importers.polyaxon_v1:IMPORTER",
    "kubeflow": "hpcdist.importers.kubeflow:IMPORTER",
    "gradient": "hpcdist.importers.gradient:IMPORTER",
    "polyaxon": "hpcdist.importers.polyaxon:IMPORTER",
}
registry: Final[Registry[Importer]] = Registry("importer", _BUILTIN)


def read(data: Map, form: str = "") -> Imported:
    """Return the native form of a file: by the named form, else by the first that recognises it.

    An unrecognised file is read as native, which is Polyaxon's form; Kubeflow's importer reports other
    objects of Kubernetes.

    Raises:
        ConfigError: when no importer has that name.
    """
    return _importer(data, form).read(data)


def settings_of(data: Map, form: str = "") -> frozenset[str]:
    """Return the keys that ``--set`` changes in the file as it is, before `read` is given the same.

    Raises:
        ConfigError: when no importer has that name.
    """
    importer = _importer(data, form)
    if isinstance(importer, ChoosesSettings):
        return importer.settings_of(data)
    return importer.settings if isinstance(importer, TakesSettings) else frozenset()


def jobs_in(data: Map, form: str = "") -> Mapping[str, Map]:
    """Return the jobs of one document, as `ContainsJobs.jobs`; most documents are one job themselves.

    Raises:
        ConfigError: when no importer has that name.
    """
    importer = _importer(data, form)
    return importer.jobs(data) if isinstance(importer, ContainsJobs) else {}


def steps_in(data: Map, form: str = "") -> Sequence[Step]:
    """Return the jobs of a document that is a pipeline, as `ContainsPipeline.steps`; none of any other.

    Raises:
        ConfigError: as that, or when no importer has that name.
    """
    importer = _importer(data, form)
    return importer.steps(data) if isinstance(importer, ContainsPipeline) else ()


def file_named_in(data: Map, form: str = "") -> tuple[Path, str] | None:
    """Return the file that the data name, as `NamesFile.file_named_in`; most name none.

    Raises:
        ConfigError: when no importer has that name.
    """
    importer = _importer(data, form)
    return importer.file_named_in(data) if isinstance(importer, NamesFile) else None


def with_named_file(data: Map, other: Map, form: str = "") -> Map:
    """Return the data with those of the file that `file_named_in` returns.

    Raises:
        ConfigError: when no importer has that name.
    """
    importer = _importer(data, form)
    return importer.with_named_file(data, other) if isinstance(importer, NamesFile) else data


def _importer(data: Map, form: str) -> Importer:
    if form:
        return registry.get(form)
    if _is_native(data):
        return registry.get("polyaxon")
    found = (importer for importer in registry.objects() if importer.recognises(data))
    return next(found, registry.get("kubeflow" if "apiVersion" in data else "polyaxon"))


def is_same_form(data: Map, other: Map) -> bool:
    """Return whether one form recognises both."""
    return _importer(data, "") is _importer(other, "")


def is_native(data: Map) -> bool:
    """Return whether a file is read as native: no other form recognises it."""
    return _importer(data, "") is registry.get("polyaxon")


def _is_native(data: Map) -> bool:
    """Whether this is what no other form has; the modules of the others then stay unread."""
    run = data.get("run")
    return isinstance(run, Map) and bool(run.keys() & {"cmd", "entrypoint"}) and data.get("version", 1) == 1


def from_command_line(words: Sequence[str], form: str) -> Map:
    """Return the data of a command line of the tool whose form is named.

    Raises:
        ConfigError: when no importer has that name, or it reads files only, or not these words.
    """
    importer = registry.get(form)
    if not isinstance(importer, ReadsCommandLine):
        raise ConfigError(Problem(f"{form} jobs are read only from files", hint="name the file"))
    return importer.from_command_line(words)

"""Importers: convert a file of another system to the data of an experiment.

Each form is one module of this package; further ones come from plug-ins (entry points ``hpcdist.importers``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

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


class Step(NamedTuple):
    """A job of a pipeline: a document of the same form with it alone, and what it waits for, with its place.

    In its texts ``{{ ops.NAME.outputs.path }}`` is the folder of what another one keeps.
    """

    name: str
    data: Map
    needs: tuple[tuple[str, Place | None], ...] = ()


class Form:
    """What an importer may have in addition to the methods of `Importer`, which then is a subclass."""

    settings: frozenset[str] = frozenset()
    """Keys at the top of the file: ``--set`` of what begins with one changes the file, not the experiment."""

    def settings_of(self, data: Map) -> frozenset[str]:
        """Return the keys of this file that are as `settings`."""
        del data
        return self.settings

    def jobs(self, data: Map) -> Mapping[str, Map]:
        """Return, for each name that one job of the document has, the document with that job alone."""
        del data
        return {}

    def steps(self, data: Map) -> Sequence[Step]:
        """Return the jobs of a document that is a pipeline: several jobs that wait for each other.

        Raises:
            ConfigError: with what of it no batch system runs.
        """
        del data
        return ()

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the key that names a file with a part of the job, and its path from the folder of this."""
        del data
        return None

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with those of the named file."""
        del other
        return data

    def from_command_line(self, words: Sequence[str]) -> Map | None:
        """Return the data of a command line of the tool, None if it has none that starts a job.

        ``words`` are those after the name of the tool. A place in the data has the option as its file, and
        line 0.

        Raises:
            ConfigError: when the words are no such command.
        """
        del words
        return None


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


def form_of(data: Map, form: str = "") -> Form:
    """Return the form by which `read` reads a file.

    Raises:
        ConfigError: when no importer has that name.
    """
    importer = _importer(data, form)
    return importer if isinstance(importer, Form) else Form()


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
    data = importer.from_command_line(words) if isinstance(importer, Form) else None
    if data is None:
        raise ConfigError(Problem(f"{form} jobs are read only from files", hint="name the file"))
    return data

"""Importers: convert a file of another system to the data of an experiment.

Each form is one module of this package; further ones come from plug-ins (entry points ``hpcdist.importers``).

reading    reads a file so that no key is lost
job    a job of any form (`ForeignJob`), from which the experiment is written
launch_lines    what a line of mpirun, horovodrun or torchrun means: ranks, slots, the program
container    what a container of Kubernetes requests and runs
node_job    one command on each node of a job, with the tool's variables
other_files    files that are no jobs: what each is, and what to do with it
azure dstack gradient job_scripts kubeflow mlrun polyaxon polyaxon_v1 skypilot torchx    the forms
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from hpcdist.base.errors import ConfigError, Path, Place, Problem, did_you_mean
from hpcdist.base.registry import Registry
from hpcdist.base.tree import Document, Map
from hpcdist.base.words import quote


class Imported(NamedTuple):
    """The data in the native form, and the remarks about the foreign file.

    Remarks have paths in the foreign file; every entry of ``data`` keeps its place.
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
        """Return the native form; keys without equivalent become remarks, or errors if they matter.

        Keys unknown to the form stay in place, so that the model reports them.
        """
        ...


class PipelineStep(NamedTuple):
    """A job of a pipeline: a document of the same form with only this job, its dependencies, and its place.

    In its texts ``{{ ops.NAME.outputs.path }}`` is the folder of another job's outputs.
    """

    name: str
    data: Map
    needs: tuple[tuple[str, Place | None], ...] = ()


class Form:
    """Optional methods of an importer, in addition to `Importer`; such an importer is a subclass."""

    settings: frozenset[str] = frozenset()
    """Top-level keys of the file: ``--set`` of a key below one changes the file, not the experiment."""

    def settings_of(self, data: Map) -> frozenset[str]:
        """Return the keys of this file that work like `settings`."""
        del data
        return self.settings

    def jobs(self, data: Map) -> Mapping[str, Map]:
        """Return, for each name of exactly one job of the document, the document with only that job."""
        del data
        return {}

    def steps(self, data: Map) -> Sequence[PipelineStep]:
        """Return the jobs of a document that is a pipeline: several jobs that wait for each other.

        Raises:
            ConfigError: with the parts that no batch system can run.
        """
        del data
        return ()

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the key that names a file with a part of the job, and its path relative to this file."""
        del data
        return None

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with the data of the named file."""
        del other
        return data

    def as_yaml(self, text: str) -> str | None:
        """Return a text that is not YAML as YAML with the same lines, None if it has not this form."""
        del text
        return None

    def from_command_line(self, words: Sequence[str]) -> Map | None:
        """Return the data of a command line of the tool, None if the tool has none that starts a job.

        ``words``: the words after the tool's name. Places in the data have the option as their file, and
        line 0.

        Raises:
            ConfigError: when the words are not such a command.
        """
        del words
        return None


_BUILTIN: Final = {
    "azure": "hpcdist.importers.azure:IMPORTER",
    "mlrun": "hpcdist.importers.mlrun:IMPORTER",
    "polyaxon_v1": "hpcdist.importers.polyaxon_v1:IMPORTER",
    "kubeflow": "hpcdist.importers.kubeflow:IMPORTER",
    "gradient": "hpcdist.importers.gradient:IMPORTER",
    "skypilot": "hpcdist.importers.skypilot:IMPORTER",
    "dstack": "hpcdist.importers.dstack:IMPORTER",
    "torchx": "hpcdist.importers.torchx:IMPORTER",
    "job_script": "hpcdist.importers.job_scripts:IMPORTER",
    "job_body": "hpcdist.importers.job_scripts:WHOLE",
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


def as_yaml(text: str) -> str | None:
    """Return a text that is not YAML as YAML, if it has another form of a known tool."""
    forms = (importer for importer in registry.objects() if isinstance(importer, Form))
    return next(filter(None, (form.as_yaml(text) for form in forms)), None)


def is_same_form(data: Map, other: Map) -> bool:
    """Return whether one form recognises both."""
    return _importer(data, "") is _importer(other, "")


def is_native(data: Map) -> bool:
    """Return whether a file is read as native: no other form recognises it."""
    return _importer(data, "") is registry.get("polyaxon")


def _is_native(data: Map) -> bool:
    """Whether no other form has these keys; if so, their modules are not imported."""
    run = data.get("run")
    return isinstance(run, Map) and bool(run.keys() & {"cmd", "entrypoint"}) and data.get("version", 1) == 1


def from_command_line(words: Sequence[str], form: str) -> Map:
    """Return the data of a command line of the tool whose form is named.

    Raises:
        ConfigError: when no importer has that name, or it does not read these words.
    """
    importer = registry.get(form)
    data = importer.from_command_line(words) if isinstance(importer, Form) else None
    if data is None:
        raise ConfigError(Problem(f"{form} jobs are read only from files", hint="name the file"))
    return data


# --- Choosing one job in a file with several documents, as in Kubernetes, or several jobs


def choose(document: Document, form: str = "", name: str = "") -> tuple[Document, tuple[Problem, ...]]:
    """Return the document with the one job of that form and name, and a warning for each other document.

    Without a form or a name, any job matches.

    Raises:
        ConfigError: when no job matches, or several do.
    """
    documents = (document.data, *document.others)
    if len(documents) == 1 and not name:
        return document, ()
    if name and name not in map(_name, documents):
        for data in documents:
            if name in (parts := form_of(data, form).jobs(data)):
                return document._replace(data=parts[name], others=()), _left_out(documents, data, name)
    jobs = [data for data in documents if _is_job(data, form)] if len(documents) > 1 else [*documents]
    if not jobs:
        hint = "give the file of the job itself; docs/how-to/foreign-files.md lists the forms"
        known = f"the form {form}" if form else "a known form"
        message = f"this file contains no job of {known}: {_listed(documents)}"
        raise ConfigError(Problem(message, hint=hint, place=documents[1].place))
    job = _the_job(jobs, name, form)
    others = tuple(_unread(data, job) for data in documents if data is not job)
    return document._replace(data=job, others=()), others


def _is_job(data: Map, form: str) -> bool:
    forms = [registry.get(form)] if form else registry.objects()
    return any(importer.recognises(data) for importer in forms)


def _left_out(documents: Sequence[Map], taken: Map, name: str) -> tuple[Problem, ...]:
    """Return warnings that other jobs and other documents are not run."""
    message = f"only {name!r} of this {_label(taken)} is run"
    others = (_unread(data, taken) for data in documents if data is not taken)
    return (_warning(message, taken), *others)


def _the_job(jobs: Sequence[Map], name: str, form: str) -> Map:
    named = [data for data in jobs if name in ("", _name(data))]
    if not named:
        inner = [part for data in jobs for part in form_of(data, form).jobs(data)]
        hint = did_you_mean(name, [*filter(None, map(_name, jobs)), *inner])
        raise ConfigError(Problem(f"there is no job {name!r} in this file", hint=hint, place=jobs[0].place))
    if len(named) > 1:
        raise ConfigError(_several(named))
    return named[0]


def _several(jobs: Sequence[Map]) -> Problem:
    """Return the error that several jobs match; a job with a unique name can be chosen by it."""
    names = [*filter(None, map(_name, jobs))]
    unique = next((name for name in names if names.count(name) == 1), "")
    first = "" if unique else "give each a unique name and "
    hint = f"keep one, or {first}choose one with `--name {quote(unique or 'NAME')}`"
    message = f"this file contains {len(jobs)} jobs: {_listed(jobs)}"
    return Problem(message, hint=hint, place=jobs[1].place)


def _listed(documents: Sequence[Map]) -> str:
    return ", ".join(f"{_label(data)} (line {data.place.line if data.place else 0})" for data in documents)


def _unread(data: Map, job: Map) -> Problem:
    message = f"this {_label(data)} has no effect on a batch machine: only {_label(job)} is run"
    return _warning(message, data)


def _warning(message: str, data: Map) -> Problem:
    """Return a warning about a whole document, placed at its `kind` if it has one."""
    path: Path = ("kind",) if "kind" in data else ()
    return Document(data, "").locate(Problem(message, path, severity="warning"))


def _name(data: Map) -> str:
    metadata = data.get("metadata")
    name = (metadata if isinstance(metadata, Map) else data).get("name")
    return "" if name is None else str(name)


def _label(data: Map) -> str:
    """Write ``MPIJob 'train'``."""
    kind = str(data.get("kind") or ("experiment" if "run" in data else "document"))
    return f"{kind} {_name(data)!r}" if _name(data) else kind

"""Chooses the job in a file of several documents, as in Kubernetes, or of several jobs."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdist import importers
from hpcdist.documents.tree import Document, Map
from hpcdist.errors import ConfigError, Path, Problem, did_you_mean
from hpcdist.words import quote


def choose(document: Document, form: str = "", name: str = "") -> tuple[Document, tuple[Problem, ...]]:
    """Return the document with the one job of that form and name, and a warning for each other document.

    Without a form or a name, any job matches.

    Raises:
        ConfigError: when there is none, or several.
    """
    documents = (document.data, *document.others)
    if len(documents) == 1 and not name:
        return document, ()
    if name and name not in map(_name, documents):
        for data in documents:
            if name in (parts := importers.form_of(data, form).jobs(data)):
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
    forms = [importers.registry.get(form)] if form else importers.registry.objects()
    return any(importer.recognises(data) for importer in forms)


def _left_out(documents: Sequence[Map], taken: Map, name: str) -> tuple[Problem, ...]:
    """Return warnings that other jobs of the document, and other documents, are not run."""
    message = f"only {name!r} of this {_label(taken)} is run"
    others = (_unread(data, taken) for data in documents if data is not taken)
    return (_warning(message, taken), *others)


def _the_job(jobs: Sequence[Map], name: str, form: str) -> Map:
    named = [data for data in jobs if name in ("", _name(data))]
    if not named:
        inner = [part for data in jobs for part in importers.form_of(data, form).jobs(data)]
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

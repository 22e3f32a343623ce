"""Replaces the problems of a refused file by what it is, where that explains more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hpcdist import importers
from hpcdist.base import fields, source
from hpcdist.base.errors import ConfigError, Key, Place, Problem, comma_list, dotted
from hpcdist.base.spelling import closest
from hpcdist.base.tree import Document, Map
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.remarks import is_below, section_for
from hpcdist.experiment.writing import write
from hpcdist.importers import other_files, polyaxon
from hpcdist.layers.frameworks import frameworks

_OF_EXPERIMENTS: Final = ("run", "framework", "environment", "batch", "build", "declarations", "hptuning")
"""Sections that only an experiment has; other tools have a `name`, a `version`, a `model` as well."""
_WRITE: Final = "an experiment needs `run: {cmd: ...}`, and `hpcdist init` writes one"
_LEFT_OUT: Final = re.compile(r"^ *\.\.\. *$")


def read(path: str | Path) -> Document:
    """Read a file that may be an experiment or a job of another tool, ``-`` for standard input.

    Raises:
        ConfigError: as `source.load`, or with what the file is instead.
    """
    raw, file = source.read_bytes(path), source.name(path)
    if raw.startswith((b"#!", b"#SBATCH", b"#PBS", b"#BSUB")):
        from hpcdist.importers import job_scripts  # no experiment begins like a script

        if (script := job_scripts.document_of(source.decode(raw, file), file)) is not None:
            return script
    try:
        return source.parse(source.decode(raw, file), file, several=True)
    except ConfigError as error:
        lines = {problem.place.line for problem in error.problems if problem.place}
        text = raw.decode("utf-8", "replace")
        if printed := importers.as_yaml(text):
            return source.parse(printed, file, several=True)
        problem = other_files.of_text(raw, file) or _left_out(text, file, lines)
        if problem is None:
            raise
        raise ConfigError(problem) from None


@contextmanager
def recognised(document: Document, form: str = "") -> Iterator[None]:
    """Replace the problems that are raised inside if the file is no experiment, or a part of one.

    ``form``: the form that the user names; its files need no key by which they are recognised.
    """
    try:
        yield
    except ConfigError:
        problem = other_files.of_data(document.data, document.file)
        if problem is None and document.others:
            problem = _left_out(document.text, document.file)
        if problem is None and not form and importers.is_native(document.data):
            problem = _lost_indentation(document) or _no_experiment(document)
        if problem is None:
            raise
        raise ConfigError(problem) from None


def _left_out(text: str, file: str, near: set[int] | None = None) -> Problem | None:
    """Return the problem of the first line that is only `...`; ``near``: it, or the next, is one of these."""
    for line, content in enumerate(text.splitlines(), 1):
        if _LEFT_OUT.match(content) and (near is None or near & {line, line + 1}):
            message = "the line `...` stands for something that was left out: this is a part of a file"
            place = Place(file, line, content.index(".") + 1)
            return Problem(message, hint="write the whole file", place=place)
    return None


def _lost_indentation(document: Document) -> Problem | None:
    """Return the problem of the first key that stands under its section, but not inside it."""
    for (section, value), key in zip(document.data.items(), [*document.data][1:], strict=False):
        if value is None and is_below(section, key):
            message = f"the lines under `{section}:` have lost their indentation"
            hint = f"indent `{key}` by two spaces, and what belongs to it by two more"
            return document.locate(Problem(message, (Key(key),), hint))
    return None


def _no_experiment(document: Document) -> Problem | None:
    """Return the problem of a file without keys of an experiment, or with keys of inner sections only."""
    if document.data.get("kind") == "pipeline":
        return None  # its own problem says so
    known = {*fields.key_names(Experiment), *frameworks.names(), *polyaxon.KEYS}
    unknown = [key for key in document.data if key not in known]
    sections = {*_OF_EXPERIMENTS, *frameworks.names()}
    run = document.data.get("run")
    if not unknown or ("run" in document.data and not isinstance(run, Map)):
        return None
    homes = {key: _section_for(key, document.data) for key in unknown}
    if run is None and all(homes.values()):
        return _part(document, homes)
    near = {closest(key, sections) or key: value for key, value in document.data.items()}
    if any(_fits(key, value) for key, value in near.items() if key in sections):
        return None
    are = "is" if len(unknown) == 1 else "are"
    missing = "`run` is missing" if run is None else "`run` has no `cmd`"
    what = f"this is not an experiment: {missing}, and {_listed(unknown)} {are} unknown"
    hint = f"{_WRITE}; if this file is for your program, name it in that command"
    return Problem(what, hint=hint, place=document.place((Key(unknown[0]),)))


def _fits(section: str, value: object) -> bool:
    """Whether a section of an experiment can have this value; at least one of its keys is known."""
    _, problems = fields.build(Experiment, {"run": {"cmd": "true"}, section: value})
    unknown = [one for one in problems if one.path[:1] == (section,) and isinstance(one.path[-1], Key)]
    if isinstance(value, Map):
        return len(unknown) < len(value)
    return not any(one.path == (section,) for one in problems)


def _section_for(key: str, data: Map) -> str:
    section = section_for(key, data[key])
    if section is None and key in polyaxon.OF_REPLICAS:
        section = ("environment", "replicas")
    return dotted(section) if section else ""


def _part(document: Document, homes: dict[str, str]) -> Problem:
    inside = {section: [key for key in homes if homes[key] == section] for section in homes.values()}
    each = [f"{_listed(keys)} of `{section}`" for section, keys in inside.items()]
    message = f"this is a part of an experiment: {' and '.join(each)}, without `run`"
    return document.locate(Problem(message, (Key(next(iter(homes))),), f"check the indentation; {_WRITE}"))


def _listed(keys: list[str]) -> str:
    return comma_list([f"`{key}`" for key in keys])


# --- Command lines of other tools, in place of a job file


def read_words(words: Sequence[str], form: str) -> Document:
    """Return a command line of the tool of that form as a document, whose text is its options as YAML.

    Raises:
        ConfigError: when no importer has that name, or it reads files only, or not these words.
    """
    data = importers.from_command_line(words, form)
    return Document(data, f"a command line of {form}", write(data))


def forms_of_words() -> str:
    """Return the forms whose command lines are read, with commas between them."""
    registry, none = importers.registry, importers.Form.from_command_line
    forms = {name: type(registry.get(name)) for name in registry.names()}
    return ", ".join(name for name, kind in forms.items() if getattr(kind, none.__name__, none) is not none)

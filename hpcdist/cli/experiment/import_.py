"""``hpcdist import``: the experiment that a job file, or a command line, of another tool asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import click

from hpcdist import importers
from hpcdist.cli import completion, show
from hpcdist.cli.experiment import new_file
from hpcdist.cli.options import changes_options, foreign_options, json_option
from hpcdist.cli.tell import tell
from hpcdist.documents import source
from hpcdist.documents.tree import Document, Map, Seq
from hpcdist.errors import ConfigError, Path, Place, Problem, dotted, errors_in
from hpcdist.experiment.writing import Comment, printable, write
from hpcdist.importers.polyaxon import as_it_is
from hpcdist.loading import inputs, load
from hpcdist.loading.load import Native


class Wanted(NamedTuple):
    """What to import, and what the command line changes in it."""

    words: tuple[str, ...]
    form: str
    job: str
    params: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]


@click.command("import")
@click.argument("words", metavar="FILE", nargs=-1, required=True, shell_complete=completion.files)
@click.option(
    "-o",
    "--output",
    metavar="EXP",
    shell_complete=completion.files,
    help="Write the experiment to this new file, - to print it.",
)
@foreign_options[0]
@foreign_options[1]
@changes_options[0]
@changes_options[1]
@json_option
def command(output: str | None, json: bool, **wanted: Any) -> None:
    """Write the experiment that a job file of another tool asks for.

    A comment beside each value says where it comes from. What has no meaning on a batch machine is a warning,
    what has one that cannot be kept an error; with an error nothing is written, and the exit code is 2.
    Instead of FILE, - is stdin, and a whole command line may stand behind --, such as
    `hpcdist import --from gradient -- experiments create multinode --name ...`.
    """
    file = new_file.chosen(output)
    if json and file:
        raise click.UsageError("--output goes with no --json.")
    native = _native(Wanted(**wanted))
    problems = _problems(native)
    tell(problems)
    found: dict[str, str] = {}
    text = f"# From {printable(native.foreign.file)}, by `hpcdist import`.\n"
    experiment = as_it_is(native.document.data)
    text += write(experiment, _noted(origins(native), found))
    if json:
        warnings = [*map(str, problems)]
        show.as_json({"experiment": experiment, "origins": found, "warnings": warnings})
    else:
        new_file.write(file, text)


def _native(wanted: Wanted) -> Native:
    foreign = _foreign(wanted.words, wanted.form)
    params, settings = dict(wanted.params), wanted.settings
    return load.to_native(foreign, params=params, settings=settings, importer=wanted.form, job=wanted.job)


def _foreign(words: Sequence[str], form: str) -> Document:
    """Read the one word as a file, several as a command line."""
    if len(words) == 1:
        return source.load(words[0], several=True)
    if not form:
        raise click.UsageError(f"Name the tool whose command line this is by --from: {_forms()}.")
    return Document(importers.from_words(words, form), f"a command line of {form}")


def _forms() -> str:
    registry = importers.registry
    known = [name for name in registry.names() if isinstance(registry.get(name), importers.ReadsWords)]
    return ", ".join(known)


def _problems(native: Native) -> tuple[Problem, ...]:
    """Return what is odd; an input without a param is: the experiment can be checked when it has one.

    Raises:
        ConfigError: with everything that is wrong.
    """
    data = native.document.data
    given = data.get("params")
    missing = inputs.required(data.get("inputs"), given if isinstance(given, Map) else {})
    if not missing:
        return load.checked(native).problems
    hint = "give `-p NAME=VALUE` here or when it is submitted, which is also when all of it is checked"
    message = f"these inputs have no param yet: {', '.join(missing)}"
    place = native.document.place(("inputs",))
    problems = load.in_order([*native.problems, Problem(message, ("inputs",), hint, "warning", place)])
    if errors_in(problems):
        raise ConfigError(*problems)
    return problems


def origins(native: Native) -> Comment:
    """Return what tells where a value comes from: ``job.yml:14 spec.slotsPerWorker``, ``--set batch.qos``."""
    paths: dict[Place, list[Path]] = {}
    for place, path in _places(native.foreign.data, ()):
        paths.setdefault(place, []).append(path)

    def origin(path: Path) -> str:
        place = native.document.place(path)
        if not place or not place.line:
            return place.file.partition("=")[0] if place else ""
        told = _nearest(native.origins, path)
        keys = paths.get(place, [told])
        key = native.origins.get(path) or next((key for key in keys if key[: len(told)] == told), keys[0])
        where = f"{PurePath(place.file).name}:{place.line}"
        return where if key in (path, ()) else f"{where} {dotted(key)}"

    return origin


def _nearest(origins: Mapping[Path, Path], path: Path) -> Path:
    """Return the origin of the path, or of the nearest section around it."""
    around = (path[:length] for length in range(len(path), 0, -1))
    return next((origins[section] for section in around if section in origins), ())


def _places(node: Map | Seq, path: Path) -> Iterator[tuple[Place, Path]]:
    """Yield where each value stands, the outer ones first: a section may stand where its first key does."""
    steps: Sequence[str | int] = [*node] if isinstance(node, Map) else range(len(node))
    for step in steps:
        place, value = node.place_of(step), node[step]  # type: ignore[arg-type,index]
        if place:
            yield place, (*path, step)
        if isinstance(value, (Map, Seq)):
            yield from _places(value, (*path, step))


def _noted(comment: Comment, found: dict[str, str]) -> Comment:
    """Return the same that also keeps what it tells."""

    def told(path: Path) -> str:
        return found.setdefault(dotted(path), comment(path))

    return told

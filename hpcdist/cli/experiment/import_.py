"""``hpcdist import``: convert a job file or command line of another tool into an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import click

from hpcdist.base.errors import ConfigError, Path, Place, Problem, dotted, errors_in
from hpcdist.base.tree import Document, Map, Seq
from hpcdist.cli import completion, show
from hpcdist.cli.experiment import new_file
from hpcdist.cli.messages import print_problems
from hpcdist.cli.options import check_form, foreign_options, json_option, override_options
from hpcdist.experiment.writing import Comment, printable, write
from hpcdist.importers.polyaxon import as_native
from hpcdist.loading import inputs, load, recognition, trials
from hpcdist.loading.load import Native


class ImportOptions(NamedTuple):
    """The file or command line to import, and the options of the verb."""

    words: tuple[str, ...]
    form: str
    job: str
    params: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]


@click.command("import")
@click.argument("words", metavar="FILE", nargs=-1, required=True, shell_complete=completion.files)
@click.option(
    "-o", "--output", metavar="EXP", shell_complete=completion.files,
    help="Write the experiment to this new file; -: print it.",
)  # fmt: skip
@foreign_options[0]
@foreign_options[1]
@override_options[0]
@override_options[1]
@json_option
def command(output: str | None, json: bool, **given: Any) -> None:
    """Convert a job script or a job file into an experiment.

    Job scripts are of Slurm, PBS, LSF, Flux or Grid Engine, job files of another tool. A comment after each
    value gives its origin. A key without a meaning on a batch system is a warning; a key that cannot be
    converted is an error: nothing is written, and the exit code is 2. FILE may be - for stdin; a command
    line of the tool can be given after --, as in
    `hpcdist import --from gradient -- experiments create multinode --name ...`.
    """
    file = new_file.chosen(output)
    if json and file:
        raise click.UsageError("--output cannot be combined with --json.")
    native = _native(ImportOptions(**given))
    problems = _problems(native)
    print_problems(problems)
    found: dict[str, str] = {}
    text = f"# From {printable(native.foreign.file)}, by `hpcdist import`.\n"
    experiment = as_native(native.document.data)
    text += write(experiment, _recorded(origins(native), found))
    if json:
        warnings = [*map(str, problems)]
        show.as_json({"experiment": experiment, "origins": found, "warnings": warnings})
    else:
        new_file.write(file, text)


def _native(options: ImportOptions) -> Native:
    foreign = _foreign(options.words, options.form)
    params, settings = dict(options.params), options.settings
    return load.to_native(foreign, params=params, settings=settings, importer=options.form, job=options.job)


def _foreign(words: Sequence[str], form: str) -> Document:
    """Read a single word as a file, several as a command line."""
    if len(words) == 1:
        return recognition.read(words[0])
    check_form(words, form)
    return recognition.read_words(words, form)


def _problems(native: Native) -> tuple[Problem, ...]:
    """Return the warnings; an input without a param is one, and defers the check until it has a value."""
    data = trials.searched(native.document).document.data
    given = data.get("params")
    missing = inputs.required(data.get("inputs"), given if isinstance(given, Map) else {})
    if not missing:
        return load.checked(native).problems
    each = " ".join(f"-p {name}=..." for name in missing)
    hint = f"give `{each}` here or to `submit`, which then checks the whole experiment"
    message = f"inputs without a param: {', '.join(missing)}"
    place = native.document.place(("inputs",))
    problems = load.in_order([*native.problems, Problem(message, ("inputs",), hint, "warning", place)])
    if errors_in(problems):
        raise ConfigError(*problems)
    return problems


def origins(native: Native) -> Comment:
    """Return the origin of each path: ``job.yml:14 spec.slotsPerWorker``, ``--set batch.qos``."""
    paths: dict[Place, list[Path]] = {}
    for place, path in _places(native.foreign.data, ()):
        paths.setdefault(place, []).append(path)

    def origin(path: Path) -> str:
        place = native.document.place(path)
        if not place or not place.line:
            return place.file.partition("=")[0] if place else ""
        sections = (path[:length] for length in range(len(path), 0, -1))
        near = next((native.origins[section] for section in sections if section in native.origins), ())
        keys = paths.get(place, [near])
        key = native.origins.get(path) or next((key for key in keys if key[: len(near)] == near), keys[0])
        where = f"{PurePath(place.file).name}:{place.line}"
        return where if key in (path, ()) or "job_script" in native.foreign.data else f"{where} {dotted(key)}"

    return origin


def _places(node: Map | Seq, path: Path) -> Iterator[tuple[Place, Path]]:
    """Yield the place of each value, outer ones first: a section may begin at the place of its first key."""
    steps: Sequence[str | int] = [*node] if isinstance(node, Map) else range(len(node))
    for step in steps:
        place, value = node.place_of(step), node[step]  # type: ignore[arg-type,index]
        if place:
            yield place, (*path, step)
        if isinstance(value, (Map, Seq)):
            yield from _places(value, (*path, step))


def _recorded(comment: Comment, found: dict[str, str]) -> Comment:
    """Return the comment function, extended to record every comment in ``found``."""

    def recorded(path: Path) -> str:
        return found.setdefault(dotted(path), comment(path))

    return recorded

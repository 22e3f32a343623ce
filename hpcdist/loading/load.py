"""Loading: a document becomes an ``Experiment`` (or another model), with every problem of it at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hpcdist import importers
from hpcdist.base import fields
from hpcdist.base.errors import ConfigError, Key, Path, Place, Problem, did_you_mean, dotted, errors_in
from hpcdist.base.fields import M
from hpcdist.base.source import read_value
from hpcdist.base.tree import Document, Map, Seq, lines_of
from hpcdist.base.words import quote
from hpcdist.base.yaml_errors import quoted
from hpcdist.experiment import remarks
from hpcdist.experiment.launch_line import launch_problems, with_own_hostfile
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of
from hpcdist.experiment.remarks import with_section
from hpcdist.layers import frameworks
from hpcdist.loading import inputs, named_files, recognition, templates, trials
from hpcdist.plan.trials import TrialTexts

# --- Comments behind a command that were probably meant as its arguments

_PATH: Final = ("run", "cmd")
_COMMENTED: Final = re.compile(r"[^'\"|>\[{].*?\s(?P<comment>#[^\s#!].*)")


def commented_arguments(document: Document) -> Iterator[Problem]:
    """Yield a warning where YAML reads an argument as a comment: ``cmd: train.py --tag #1 --lr 0.1``.

    ``#`` followed by a space does not warn.
    """
    place = document.place(_PATH)
    if not (place and place.line and place.file == document.file):
        return
    text = "".join(lines_of(document.text)[place.line - 1 : place.line])[place.column - 1 :].rstrip()
    if match := _COMMENTED.fullmatch(text):
        there = Place(place.file, place.line, place.column + match.start("comment"))
        message = f"`{match['comment']}` is a comment in YAML, not a part of the command"
        hint = f"if it is an argument, quote the command: `cmd: {quoted(text)}`"
        yield Problem(message, _PATH, hint, "warning", there)


# --- Changes of an experiment file from the command line: ``--set a.b=value`` and ``-p name=value``

_TEXTS: Final = ("str", "path")
"""Types of inputs for which ``-p x=5`` and ``-p x=true`` are text."""
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class _NewValue(NamedTuple):
    """A value from the command line, its source text, and the option as its place."""

    value: object
    text: str
    place: Place


def with_setting(data: Map, setting: str, text: str) -> Map:
    """Return the data with one more value: ``batch.walltime``, ``environment.replicas.worker[0].index``.

    Missing sections are created; the model checks their keys later.

    Raises:
        ConfigError: when the text is broken YAML.
        ValueError: when a step of the path is not a section or list, or the value is empty.
    """
    place, path = Place(f"--set {setting}={text}", 0, 0), _path(setting)
    if path[0] == "inputs" and isinstance(data.get("inputs"), Seq) and isinstance((*path, 0)[1], str):
        raise ValueError(f"inputs get their values as params: write `-p {quote(f'{path[1]}={text}')}`")
    if not text.strip():
        raise ValueError("the value is empty; write a value after `=`, or null for none")
    changed: Map = _with(data, path, _NewValue(read_value(text, place), text, place))
    return changed


def _path(setting: str) -> Path:
    steps: list[str | int] = []
    end = 0
    for match in _STEP.finditer(setting):
        if match.start() != end:
            break
        steps.append(match[1] if match[1] is not None else int(match[2]))
        end = match.end()
    if end != len(setting) or not steps or not isinstance(steps[0], str):
        raise ValueError(
            f"{setting!r} is not a path; write it as batch.walltime or environment.replicas.worker[0]"
        )
    return tuple(steps)


def _with(node: Any, path: Path, new: _NewValue) -> Any:
    """Return a copy of the section or list with the value set; sections along the path are copied too."""
    step, rest = path[0], path[1:]
    if node is None and isinstance(step, str):
        node = Map(place=new.place)
    if isinstance(node, Map) and isinstance(step, str):
        return _with_entry(node, step, rest, new)
    if isinstance(node, Seq) and isinstance(step, int) and step < len(node):
        item = _with(node[step], rest, new) if rest else new.value
        changed = node.mapped(lambda at, old: item if at == step else old)
        if not rest:
            changed.item_places[step] = new.place
            changed.texts.pop(step, None)
            if not isinstance(new.value, (str, dict, list)):
                changed.texts[step] = new.text
        return changed
    what = (
        "a section" if isinstance(node, Map) else f"a list of {len(node)}" if isinstance(node, Seq) else node
    )
    raise ValueError(f"there is no {dotted((step,))} in {what}")


def _with_entry(section: Map, key: str, rest: Path, new: _NewValue) -> Map:
    changed = section.copy()
    if rest:
        place = section.value_places.get(key, new.place)
        changed.put(key, _with(section.get(key), rest, new), place, key_place=section.key_places.get(key))
        return changed
    changed.put(key, new.value, new.place)
    if not isinstance(new.value, (str, dict, list)):
        changed.texts[key] = new.text
    return changed


def _searched(data: Map) -> Iterator[str]:
    """Yield the params of a search, which need no value in ``params``; one there gets a warning."""
    section = data.get("hptuning")
    search = section if isinstance(section, Map) else Map()
    listed = search.get("mapping")
    of_trials = (search.get("matrix"), *(listed if isinstance(listed, Seq) else ()))
    return (name for part in of_trials if isinstance(part, Map) for name in part)


def _input_types(data: Map) -> dict[str, Any]:
    declared = data.get("inputs")
    inputs = [item for item in declared if isinstance(item, Map)] if isinstance(declared, Seq) else []
    return {str(item.get("name")): item.get("type") for item in inputs}


def _known_params(data: Map) -> set[str]:
    params = data.get("params")
    return {*(params if isinstance(params, Map) else ()), *_input_types(data), *_searched(data)}


def _with_variables(data: Map, form: str, given: Mapping[str, str]) -> tuple[Map, Mapping[str, str]]:
    """Return a foreign file with the shell variables filled in that ``-p`` names, and its other params."""
    if not given or importers.is_native(data):
        return data, given
    from hpcdist.importers.reading import variables_in, with_variables

    used = given.keys() & variables_in(data)
    with suppress(ConfigError):  # it is reported when the file is read with the values
        used -= _known_params(importers.read(data, form).data) if used else set()
    filled = with_variables(data, {name: given[name] for name in used})
    return filled, {name: text for name, text in given.items() if name not in used}


def with_params(data: Map, given: Mapping[str, str]) -> tuple[Map, list[Problem]]:
    """Return the data with new values for some params; an unknown name is a problem."""
    if not given:
        return data, []
    params, kinds, known = data.get("params"), _input_types(data), _known_params(data)
    new = params.copy() if isinstance(params, Map) else Map()
    problems: list[Problem] = []
    for name, text in given.items():
        place = Place(f"-p {name}={text}", 0, 0)
        if name not in known:
            hint = did_you_mean(name, known) or f"add it by `--set params.{name}={text}`"
            problems.append(Problem(f"there is no param {name!r}", ("params", Key(name)), hint, place=place))
            continue
        value = read_value(text, place)
        is_text = kinds.get(name) in _TEXTS and value is not None
        new.put(name, text if is_text and not isinstance(value, str) else value, place)
        if isinstance(new[name], (int, float)):
            new.texts[name] = text
    changed = data.copy()
    changed.put("params", new, data.value_places.get("params"), key_place=data.key_places.get("params"))
    return changed, problems


# --- Loading

_NO_PLACE = Place("", 0, 0)
_REPLICAS = ("environment", "replicas")
_BATCH = ("batch",)
_MOST = 50
"""The most problems that are shown at once."""


class Native(NamedTuple):
    """A file in native form, the ``foreign`` document it was made from, and the problems of importing it.

    ``origins`` are from ``importers.Imported``; ``form`` is the form that the user named.
    """

    document: Document
    foreign: Document
    problems: tuple[Problem, ...]
    origins: Mapping[Path, Path]
    form: str = ""


class Loaded(NamedTuple):
    """An experiment, the document in native form (``document.place`` takes native paths), and warnings.

    ``trials``: of its search; the experiment itself is the first one.
    """

    experiment: Experiment
    document: Document
    problems: tuple[Problem, ...] = ()
    trials: Sequence[TrialTexts] = ()


def load_model(model: type[M], document: Document) -> M:
    """Make a model from a document.

    Raises:
        ConfigError: with every problem, located and in the order of the file.
    """
    built, problems = fields.build(model, document.data)
    if built is None or problems:
        raise ConfigError(*in_order(map(document.locate, problems)))
    return built


def load_experiment(
    document: Document,
    *,
    params: Mapping[str, str] | None = None,
    settings: Sequence[tuple[str, str]] = (),
    importer: str = "",
) -> Loaded:
    """Make an experiment of a file: import, ``settings`` (--set), ``params`` (-p), templates, model, checks.

    ``importer`` names the form of the file; by default the form is detected.

    Raises:
        ConfigError: with all errors, then all warnings, located and in the order of the file.
    """
    return checked(to_native(document, params=params, settings=settings, importer=importer))


def to_native(
    document: Document,
    *,
    params: Mapping[str, str] | None = None,
    settings: Sequence[tuple[str, str]] = (),
    importer: str = "",
    job: str = "",
) -> Native:
    """Convert a file to the native form: choose its job (by name, if it has several), import, apply changes.

    A setting whose key the foreign form has is applied to the foreign file, others to the experiment.

    Raises:
        ConfigError: when its form or its job cannot be determined, or a file that it names cannot be read.
    """
    with recognition.recognised(document, importer):
        return _to_native(document, params or {}, settings, importer, job)


def _to_native(
    document: Document,
    params: Mapping[str, str],
    settings: Sequence[tuple[str, str]],
    importer: str,
    job: str,
) -> Native:
    chosen, others = importers.choose(document, importer, job)
    chosen = named_files.with_named_file(chosen, importer)
    known = importers.form_of(chosen.data, importer).settings_of(chosen.data) if settings else frozenset()
    theirs = [item for item in settings if re.split(r"[.\[]", item[0])[0] in known]
    foreign, found = _with_settings(chosen, theirs)
    if theirs and not importer and not importers.is_same_form(chosen.data, foreign.data):
        place = Place(f"--set {'='.join(theirs[-1])}", 0, 0)
        raise ConfigError(Problem("with this value, the file has no longer the form of a job", place=place))
    data, params = _with_variables(foreign.data, importer, params)
    foreign = foreign._replace(data=data)
    imported = importers.read(foreign.data, importer)
    problems = [*others, *found, *map(foreign.locate, imported.remarks)]
    ours = [item for item in settings if item not in theirs]
    native, found = _with_settings(foreign._replace(data=imported.data), ours)
    native, more = _with_params(native, params)
    return Native(native, foreign, (*problems, *found, *more), imported.origins, importer)


def checked(native: Native) -> Loaded:
    """Make an experiment from the native form: templates, model, checks.

    Raises:
        ConfigError: with all errors, also from ``native``, then all warnings.
    """
    with recognition.recognised(native.foreign, native.form):
        return _checked(native)


def _checked(native: Native) -> Loaded:
    searched = trials.searched(native.document)
    filled, found = _with_templates_filled(searched.document, searched.unknown)
    refused = {problem.path for problem in native.problems if problem.severity == "error"}
    shown = (one for one in found if one.severity != "note" and one.path not in refused)
    problems = [*native.problems, *map(filled.locate, shown)]
    broken = {problem.path for problem in found}
    built, invalid = fields.build(Experiment, filled.data)
    placed = (with_section(problem, filled.data) for problem in invalid if problem.path not in broken)
    problems += map(filled.locate, placed)
    whole = built or fields.build(Experiment, filled.data | {"run": {"cmd": "true"}})[0]
    problems += [] if filled.text.startswith("#!") else commented_arguments(filled)
    if whole is not None:
        problems += map(filled.locate, _independent(_checks(whole), [*found, *invalid]))
    own: Sequence[TrialTexts] = ()
    if built is not None and not errors_in(problems):
        own, more = trials.texts_of(searched, built)
        problems += map(filled.locate, more)
    ordered = in_order(problems)
    if built is None or errors_in(ordered):
        raise ConfigError(*ordered)
    return Loaded(with_own_hostfile(built), filled, ordered, own)


def _with_settings(document: Document, settings: Sequence[tuple[str, str]]) -> tuple[Document, list[Problem]]:
    """Apply the settings of ``--set``."""
    data = document.data
    problems: list[Problem] = []
    for key, text in settings:
        try:
            data = with_setting(data, key, text)
        except ConfigError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(Problem(str(error), place=Place(f"--set {key}={text}", 0, 0)))
    return document._replace(data=data), problems


def _with_params(document: Document, params: Mapping[str, str]) -> tuple[Document, list[Problem]]:
    """Apply the params of ``-p``."""
    try:
        data, problems = with_params(document.data, params)
    except ConfigError as error:
        return document, list(error.problems)
    return document._replace(data=data), problems


def _with_templates_filled(document: Document, unknown: Sequence[str] = ()) -> tuple[Document, list[Problem]]:
    """Check the params against the inputs, and render the templates; ``unknown``: params without a value."""
    data = document.data
    given = data.get("params")
    if not isinstance(given, Map | None):
        return document, []  # building the model reports it
    values, shown, problems = inputs.resolve(data.get("inputs"), given or Map(), unknown)
    params = given.copy() if given is not None else Map(place=data.place)
    for name, value in values.items():
        if params.get(name) is None:
            params.put(name, value, document.place(("inputs",)))
    wrong = [str(problem.path[1]) for problem in problems if problem.path[0] == "params"]
    missing = inputs.required(data.get("inputs"), given or {})
    data, found = templates.render(data, shown, {*wrong, *missing, *unknown})
    if values:
        data.put("params", params, document.place(("params",)))
    return document._replace(data=data), [*problems, *found]


def _independent(problems: Iterator[Problem], earlier: Sequence[Problem]) -> Iterator[Problem]:
    """Omit problems that may only follow from an earlier one: at its place, in its section, or of counts."""
    paths = {problem.path for problem in earlier if problem.path}
    counts = any(path[:2] in (_REPLICAS, ("environment",), ("framework",)) for path in paths)
    sections = {path[:length] for path in paths for length in range(1, len(path))} - {_BATCH}
    if ("framework",) in paths:
        sections |= {(name,) for name in frameworks.frameworks.names()}
    return (
        problem
        for problem in problems
        if not (counts and problem.path[:2] in (_REPLICAS, (*_BATCH, "nodes")))
        if problem.path not in sections
        if not any(problem.path[:length] in paths for length in range(1, len(problem.path) + 1))
    )


def _checks(experiment: Experiment) -> Iterator[Problem]:
    own = tuple(problems_of(experiment))
    yield from own
    yield from frameworks.problems_of(experiment)
    if not errors_in(own):
        yield from frameworks.unequal_gpus(experiment)
        yield from frameworks.other_programs(experiment)
    yield from launch_problems(experiment)
    yield from remarks.remarks(experiment)


def in_order(problems: Iterator[Problem] | Sequence[Problem]) -> tuple[Problem, ...]:
    """Return errors before warnings, each in the order of the places; of more than 50, the first."""

    def key(problem: Problem) -> tuple[bool, bool, str, int, int]:
        place = problem.place or _NO_PLACE
        return problem.severity != "error", not place.line, place.file, place.line, place.column

    ordered = sorted(problems, key=key)
    shown, left = ordered[:_MOST], ordered[_MOST:]
    if left:
        message, hint = f"{len(left)} more problems are not shown", "fix the problems above first"
        shown.append(Problem(message, (), hint, left[0].severity, left[0].place))
    return tuple(shown)

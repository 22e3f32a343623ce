"""A pipeline: its operations, what each needs, and their plans with the dependencies of their jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, HpcdistError, Path, Place, PlanError, Problem
from hpcdist.base.tree import Document, Map, Seq, texts_in
from hpcdist.experiment import writing
from hpcdist.experiment.model import Experiment
from hpcdist.loading import planning
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

# --- What texts of an operation take from its pipeline: params, and the outputs of other operations
#
# ``{{ ops.prep.outputs.path }}`` is the output folder of the run of ``prep``, ``{{ params.size }}`` or
# ``{{ size }}`` a param of the pipeline. Both are filled in before the experiment is read, so that a run's
# record of its experiment is complete.

_REFERENCE: Final = re.compile(
    r"\{\{-?\s*(?:ops\.(?P<op>[\w-]+)\.outputs\.path|(?:params\.)?(?P<param>[A-Za-z_]\w*))\s*-?\}\}"
)
_OF_OPS: Final = re.compile(r"\{\{[^{}]*\bops\b[^{}]*\}\}")
_HINT: Final = "write `{{ ops.NAME.outputs.path }}`: the folder of the outputs of an operation"

Fill = Callable[["re.Match[str]"], object]


def used_operations(data: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the operations whose outputs are used, each with the path of the using text."""
    for where, text in texts_in(data, path):
        yield from ((where, match["op"]) for match in _REFERENCE.finditer(text) if match["op"])


def used_params(data: object) -> Iterator[str]:
    """Yield the names of the params that are used, or would be if the pipeline has them."""
    for _, text in texts_in(data, ()):
        yield from (match["param"] for match in _REFERENCE.finditer(text) if match["param"])


def malformed_references(data: object, path: Path = ()) -> Iterator[Problem]:
    """Yield malformed references."""
    for where, text in texts_in(data, path):
        for match in _OF_OPS.finditer(text):
            if not _REFERENCE.fullmatch(match[0]):
                yield Problem(f"{match[0]} is not an output of an operation", where, _HINT)


def fill_references(data: Any, outputs: Callable[[str], str], params: Mapping[str, object]) -> Any:
    """Return the data with these references filled in; a text that is one param becomes its value."""

    def value(match: re.Match[str]) -> object:
        if match["op"]:
            return outputs(match["op"])
        return params.get(match["param"], match[0])

    def filled(node: Any) -> Any:
        if isinstance(node, (Map, Seq)):
            return node.mapped(lambda _, item: filled(item))
        if not isinstance(node, str):
            return node
        whole = _REFERENCE.fullmatch(node)
        return value(whole) if whole else _REFERENCE.sub(lambda match: str(value(match)), node)

    return filled(data)


# --- A pipeline

CONDITIONS: Final = ("afterok", "afterany", "afternotok", "after", "aftercorr")
"""How an operation may wait for another one; each scheduler supports some of them."""


class OperationNeed(NamedTuple):
    """Another operation that must have ended, as ``condition`` says, before this one starts."""

    operation: str
    condition: str = "afterok"
    place: Place | None = None


class Operation(NamedTuple):
    """One run of a pipeline: its experiment, as read with these options, and what it needs.

    ``is_inline``: its experiment is a part of the pipeline's file; else ``params`` are what it is given.
    """

    name: str
    options: ExperimentOptions
    document: Document
    needs: tuple[OperationNeed, ...] = ()
    is_inline: bool = True
    place: Place | None = None
    params: Map = Map()


class Pipeline(NamedTuple):
    """A pipeline; each operation comes after those it needs. ``problems``: warnings and notes."""

    name: str
    document: Document
    operations: tuple[Operation, ...]
    params: Mapping[str, object]
    problems: tuple[Problem, ...] = ()


# --- The operations become plans

_PLACES: Final = re.compile(r"(?<=[`'])(after\w*):(\d+(?::\d+)*)")

Runs = Mapping[str, FilePath]
"""The run directory of each operation."""

PlanOne = Callable[[ExperimentOptions, Document, Awaiting], Planned]
"""Plans an experiment as its options ask for."""


class PlannedOperation(NamedTuple):
    """An operation with its plan, the options of the plan, and its experiment as a file's text."""

    operation: Operation
    options: ExperimentOptions
    made: Planned
    text: str


def expected_runs(pipeline: Pipeline, name: str, runs_dir: FilePath) -> dict[str, FilePath]:
    """Return the run directories that the operations of a new pipeline of this name will have."""
    return {one.name: runs_dir / f"{name}-{one.name}-1" for one in pipeline.operations}


def plan_operations(pipeline: Pipeline, name: str, runs: Runs, plan: PlanOne) -> list[PlannedOperation]:
    """Plan all operations before there is any run, with places in the pipeline as job ids.

    Raises:
        ConfigError: with the problems of all operations, equal ones once, if one is invalid.
        PlanError: with these, if one does not fit the site, or the site cannot wait in that way.
    """
    ids = {runs[one.name].name: str(place) for place, one in enumerate(pipeline.operations, 1)}
    steps: list[PlannedOperation] = []
    errors: list[ConfigError | PlanError] = []
    for operation in pipeline.operations:
        try:
            steps.append(plan_operation(pipeline, operation, name, runs, plan, _by_place(ids)))
        except (ConfigError, PlanError) as error:
            errors.append(error)
    if unfit := [*_apart(steps), *_too_early(steps)]:
        errors.append(PlanError(*unfit))
    if errors:
        problems = (problem for error in errors for problem in error.problems)
        raise type(errors[0])(*dict.fromkeys(_with_names(problem, pipeline) for problem in problems))
    return steps


def _apart(steps: Sequence[PlannedOperation]) -> Iterator[Problem]:
    """Yield where an operation needs one on another machine, whose jobs no batch system can wait for."""
    sites = {step.operation.name: step.made.plan.identity.site for step in steps}
    for step in steps:
        name = step.operation.name
        for need in step.operation.needs:
            other = sites.get(need.operation, sites[name])
            if other != sites[name]:
                message = f"{name} runs on {sites[name]}, and {need.operation}, which it needs, on {other}"
                hint = "a batch system waits for its own jobs alone: give both the same `batch.site`"
                yield Problem(message, hint=hint, place=need.place)


def _too_early(steps: Sequence[PlannedOperation]) -> Iterator[Problem]:
    """Yield where an operation would begin after one generation of a search: the last one has no job yet."""
    sweeps = {step.operation.name: step.made.plan.sweep for step in steps}
    for step in steps:
        for need in step.operation.needs:
            sweep, name = sweeps.get(need.operation), step.operation.name
            if sweep and sweep.generations > 1 and need.condition != "after":
                message = f"{name} would begin after the first of {sweep.generations} generations"
                hint = (
                    f"submit {need.operation} alone, and the others after `hpcdist wait RUN`, which waits for"
                    " its last generation; or choose another kind of search"
                )
                yield Problem(f"{message} of {need.operation}", hint=hint, place=need.place)


def _with_names(problem: Problem, pipeline: Pipeline) -> Problem:
    """Return a problem with operations' names for their places, as in ``'afterok:1'``."""

    def named(match: re.Match[str]) -> str:
        places = match[2].split(":")
        return ":".join((match[1], *(pipeline.operations[int(place) - 1].name for place in places)))

    if problem.path != ("batch", "dependency"):
        return problem
    message, hint = (_PLACES.sub(named, text) for text in (problem.message, problem.hint))
    return problem._replace(message=message, hint=hint)


def plan_operation(  # noqa: PLR0913, PLR0917 - the pipeline, and how it is planned
    pipeline: Pipeline, operation: Operation, name: str, runs: Runs, plan: PlanOne, awaiting: Awaiting
) -> PlannedOperation:
    """Plan an operation of the pipeline with this name; ``runs``: of the operations that it needs.

    Raises:
        ConfigError: if it is invalid.
        PlanError: if it does not fit the site.
    """
    document, options = _filled(pipeline, operation, runs)
    try:
        own = planning.loaded(options, document).experiment.batch.dependency
        texts = [*([own] if isinstance(own, str) else own), *_waits(operation, runs)]
        settings = [("name", json.dumps(f"{name}-{operation.name}"))]
        settings += [("batch.dependency", json.dumps(texts))] if texts else []
        options = options._replace(settings=(*options.settings, *settings))
        made = plan(options, document, with_orphan_directive(awaiting))
    except HpcdistError as error:
        raise type(error)(*place_problems(error.problems, operation)) from error
    made = made._replace(problems=tuple(place_problems(made.problems, operation)))
    text = writing.write(document.data) if operation.is_inline else made.document.text
    return PlannedOperation(operation, options, made, text)


def with_orphan_directive(awaiting: Awaiting) -> Awaiting:
    """Add the directive that ends a job as soon as it can never start, if the scheduler has one."""

    def with_directive(experiment: Experiment, site: Site) -> Experiment:
        waiting, scheduler = awaiting(experiment, site), schedulers.get(site.scheduler)
        own = waiting.batch.directives
        if not waiting.batch.dependency or not scheduler.orphan_directive:
            return waiting
        if any(text.startswith(scheduler.orphan_directive.partition("=")[0]) for text in own):
            return waiting
        batch = replace(waiting.batch, directives=(*own, scheduler.orphan_directive))
        return replace(waiting, batch=batch)

    return with_directive


def _filled(pipeline: Pipeline, operation: Operation, runs: Runs) -> tuple[Document, ExperimentOptions]:
    """Return the experiment of an operation, with references filled in, and its options."""

    def outputs(name: str) -> str:
        path = str(runs[name] / "outputs")
        if "{{" in path or "{%" in path:
            raise ConfigError(Problem(f"the path {path} would be read as a template", hint="use another one"))
        return path

    params = dict(pipeline.params)
    document, options = operation.document, operation.options
    if not operation.is_inline:
        filled = fill_references(operation.params, outputs, params)
        return document, options._replace(params=tuple((key, _text(filled, key)) for key in filled))
    own = document.data.get("params") or {}
    others = {key: value for key, value in params.items() if key not in own}
    data = document.data.mapped(
        lambda key, value: fill_references(value, outputs, params if key == "params" else others)
    )
    return document._replace(data=data), options


def _text(params: Map, key: str) -> str:
    """Return the value of a param as ``-p`` takes it, of the same type."""
    return params.texts.get(key) or json.dumps(params[key], ensure_ascii=False)


def _waits(operation: Operation, runs: Runs) -> list[str]:
    """Return what its job waits for, the runs grouped by condition: ``afterok:prep-1:left-1``."""
    by_condition: dict[str, list[str]] = {}
    for need in operation.needs:
        by_condition.setdefault(need.condition, []).append(runs[need.operation].name)
    return [":".join((condition, *names)) for condition, names in by_condition.items()]


def _by_place(ids: Mapping[str, str]) -> Awaiting:
    """Return how to wait for runs that do not exist yet: by these ids."""

    def awaiting(experiment: Experiment, site: Site) -> Experiment:
        del site
        texts = experiment.batch.dependency
        listed: Sequence[str] = [texts] if isinstance(texts, str) else texts
        named = tuple(":".join(ids.get(word, word) for word in text.split(":")) for text in listed)
        return replace(experiment, batch=replace(experiment.batch, dependency=named))

    return awaiting


# --- Problems of an operation, placed in its pipeline

FOR_ALL: Final = "batch.container"
"""The only setting for all operations: ``--no-container``."""

_SETTING: Final = re.compile(r"--set ('?)(?=[a-z])(?!batch\.container\b)")
_PARAM: Final = re.compile(r"(?<![\w-])-p ('?)(?=\w)")


def place_problems(problems: Iterable[Problem], operation: Operation) -> list[Problem]:
    """Return problems of an operation, placed in its pipeline.

    Problems of its dependency are at the place of its first need. Options in texts and places become the
    pipeline's: ``--set OPERATION.KEY``.
    """
    at, name = next((need.place for need in operation.needs), operation.place), operation.name
    found = [
        one._replace(message=f"{name}: {one.message}", place=at)
        if one.path == ("batch", "dependency") and operation.needs
        else one
        for one in problems
    ]
    return [
        one._replace(
            message=_of_pipeline(one.message, name),
            hint=_of_pipeline(one.hint, name),
            place=_option(one.place, name),
        )
        for one in found
    ]


def _of_pipeline(text: str, name: str) -> str:
    """Return a text with options of an experiment replaced by options for this operation."""
    own = _SETTING.sub(lambda match: f"--set {match[1]}{name}.", text)
    return _PARAM.sub(lambda match: f"--set {match[1]}{name}.params.", own)


def _option(place: Place | None, name: str) -> Place | None:
    """Return a place as the user typed it, where it is an option."""
    if place is None or not place.file.startswith("--set ") or place.file.startswith(f"--set {FOR_ALL}="):
        return place
    return place._replace(file=_of_pipeline(place.file, name))

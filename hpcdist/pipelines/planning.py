"""The operations of a pipeline become plans, each with the dependencies of its job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.documents.tree import Document, Map
from hpcdist.errors import ConfigError, HpcdistError, PlanError, Problem
from hpcdist.experiment import writing
from hpcdist.experiment.model import Experiment
from hpcdist.loading import planning
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.pipelines import model, reading
from hpcdist.pipelines.model import Operation, Pipeline
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

_PLACES: Final = re.compile(r"(?<=[`'])(after\w*):(\d+(?::\d+)*)")

PlanOne = Callable[[ExperimentOptions, Document, Awaiting], Planned]
"""Plans an experiment as its options ask for."""


class Step(NamedTuple):
    """An operation with its plan, the options with which this was made, and its experiment as a file."""

    operation: Operation
    options: ExperimentOptions
    made: Planned
    text: str


def expected(pipeline: Pipeline, name: str, runs_dir: Path) -> dict[str, Path]:
    """Return the run directories that the operations of a new pipeline of this name will have."""
    return {one.name: runs_dir / f"{name}-{one.name}-1" for one in pipeline.operations}


def plan_all(pipeline: Pipeline, name: str, runs: Mapping[str, Path], plan: PlanOne) -> list[Step]:
    """Plan all operations before there is any run; their jobs have the places in the pipeline as ids.

    Raises:
        ConfigError: with the problems of all operations, equal ones once, if one is invalid.
        PlanError: with these, if one does not fit the site, which may not be able to wait in such a way.
    """
    ids = {runs[one.name].name: str(place) for place, one in enumerate(pipeline.operations, 1)}
    steps: list[Step] = []
    errors: list[ConfigError | PlanError] = []
    for operation in pipeline.operations:
        try:
            steps.append(plan_one(pipeline, operation, name, runs, plan, _by_place(ids)))
        except (ConfigError, PlanError) as error:
            errors.append(error)
    if unfit := [*_apart(steps), *_too_early(steps)]:
        errors.append(PlanError(*unfit))
    if errors:
        problems = (problem for error in errors for problem in error.problems)
        raise type(errors[0])(*dict.fromkeys(_with_names(problem, pipeline) for problem in problems))
    return steps


def _apart(steps: Sequence[Step]) -> Iterator[Problem]:
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


def _too_early(steps: Sequence[Step]) -> Iterator[Problem]:
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
    """Return a problem that names operations where it has their places: ``'afterok:1'``."""

    def named(match: re.Match[str]) -> str:
        places = match[2].split(":")
        return ":".join((match[1], *(pipeline.operations[int(place) - 1].name for place in places)))

    if problem.path != ("batch", "dependency"):
        return problem
    message, hint = (_PLACES.sub(named, text) for text in (problem.message, problem.hint))
    return problem._replace(message=message, hint=hint)


def plan_one(  # noqa: PLR0913, PLR0917 - the pipeline, and how it is planned
    pipeline: Pipeline,
    operation: Operation,
    name: str,
    runs: Mapping[str, Path],
    plan: PlanOne,
    awaiting: Awaiting,
) -> Step:
    """Plan an operation of the pipeline with this name; the runs of those that it needs are given.

    Raises:
        ConfigError: if it is invalid.
        PlanError: if it does not fit the site.
    """
    document, options = _filled(pipeline, operation, runs)
    try:
        options = _waiting(operation, name, runs, options, document)
        made = plan(options, document, ending_orphans(awaiting))
    except HpcdistError as error:
        raise type(error)(*reading.places(error.problems, operation)) from error
    made = made._replace(problems=tuple(reading.places(made.problems, operation)))
    text = writing.write(document.data) if operation.is_inline else made.document.text
    return Step(operation, options, made, text)


def _waiting(
    operation: Operation, name: str, runs: Mapping[str, Path], options: ExperimentOptions, document: Document
) -> ExperimentOptions:
    """Return the options with the name of the run, and with what its job waits for."""
    own = planning.loaded(options, document).experiment.batch.dependency
    texts = [*([own] if isinstance(own, str) else own), *_waits(operation, runs)]
    settings = [("name", json.dumps(f"{name}-{operation.name}"))]
    settings += [("batch.dependency", json.dumps(texts))] if texts else []
    return options._replace(settings=(*options.settings, *settings))


def ending_orphans(awaiting: Awaiting) -> Awaiting:
    """Return the same, with a directive that ends a job as soon as it can never start, where there is one."""

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


def _filled(
    pipeline: Pipeline, operation: Operation, runs: Mapping[str, Path]
) -> tuple[Document, ExperimentOptions]:
    """Return the experiment of an operation with what it takes from its pipeline, and its options."""

    def outputs(name: str) -> str:
        path = str(runs[name] / "outputs")
        if "{{" in path or "{%" in path:
            raise ConfigError(Problem(f"the path {path} would be read as a template", hint="use another one"))
        return path

    params = dict(pipeline.params)
    document, options = operation.document, operation.options
    if not operation.is_inline:
        filled = model.filled(operation.params, outputs, params)
        return document, options._replace(params=tuple((key, _text(filled, key)) for key in filled))
    own = document.data.get("params") or {}
    others = {key: value for key, value in params.items() if key not in own}
    data = document.data.mapped(
        lambda key, value: model.filled(value, outputs, params if key == "params" else others)
    )
    return document._replace(data=data), options


def _text(params: Map, key: str) -> str:
    """Return the value of a param as ``-p`` takes it, of the same type."""
    return params.texts.get(key) or json.dumps(params[key], ensure_ascii=False)


def _waits(operation: Operation, runs: Mapping[str, Path]) -> list[str]:
    """Return what its job waits for, the runs of one condition together: ``afterok:prep-1:left-1``."""
    by_condition: dict[str, list[str]] = {}
    for need in operation.needs:
        by_condition.setdefault(need.condition, []).append(runs[need.operation].name)
    return [":".join((condition, *names)) for condition, names in by_condition.items()]


def _by_place(ids: Mapping[str, str]) -> Awaiting:
    """Return how runs that do not exist yet are awaited: by these ids."""

    def awaiting(experiment: Experiment, site: Site) -> Experiment:
        del site
        texts = experiment.batch.dependency
        listed: Sequence[str] = [texts] if isinstance(texts, str) else texts
        named = tuple(":".join(ids.get(word, word) for word in text.split(":")) for text in listed)
        return replace(experiment, batch=replace(experiment.batch, dependency=named))

    return awaiting

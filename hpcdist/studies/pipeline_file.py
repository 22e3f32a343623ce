"""A file with several operations becomes a pipeline, with all of its problems at once."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import (
    ConfigError,
    Key,
    Path,
    Place,
    Problem,
    did_you_mean,
    errors_in,
    located,
    unknown,
)
from hpcdist.base.tree import Document, Map, Seq
from hpcdist.base.words import RUN_NAME, RUN_NAME_FORM, slug
from hpcdist.importers import PipelineStep
from hpcdist.loading import named_files, recognition
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.studies.pipeline_plan import (
    CONDITIONS,
    FOR_ALL,
    Operation,
    OperationNeed,
    Pipeline,
    malformed_references,
    used_operations,
    used_params,
)

# --- Pipelines of other tools, where they are data: Polyaxon's ``run.kind: dag``, documents of several jobs

_TRIGGERS: Final = {"all_succeeded": "afterok", "all_done": "afterany", "all_failed": "afternotok"}
_NAMES: Final = ("name", "display_name", "experiment_name")
_HARMLESS: Final = ("version", "kind", "name", "description", "tags")
"""Keys that a pipeline sets itself, or that do not say how it runs."""

_REMOVE: Final = "remove it"
_HINTS: Final = {"schedule": "use cron", "matrix": "write it into the operation that is a search"}
_INSTEAD: Final = {
    "hubRef": "it is kept in Polyaxon's hub: write it as a file next to this one, and `pathRef: ./NAME.yml`",
    "urlRef": "nothing is fetched: save it next to this file, and write `pathRef: ./NAME.yml`",
    "conditions": "no batch system looks at values: test them in the command, or use `trigger`",
    "schedule": "use cron",
    "matrix": "write it as `hptuning` into the file of an operation of its own",
}
"""Keys of Polyaxon's operations that operations here do not have, and what to write instead."""

_GIVEN: Final = ("params", "inputs")
"""Keys with the values of a dag that operations take by ``ref: dag``."""

_OF_RUN: Final = ("kind", "operations", "components")
_MINIMUM: Final = ("name", "version", "description", "tags")
_KEPT: Final = ("component", "pathRef", "params", "environment", "runPatch", "termination")


def is_dag(data: Map) -> bool:
    """Return whether a file is a component of Polyaxon 1 or 2 with several operations."""
    return isinstance(_run(data), Map) and _run(data).get("kind") == "dag"


def _run(data: Map) -> Any:
    component = data.get("component")
    return data.get("run", component.get("run") if isinstance(component, Map) else None)


def steps_of(document: Document, form: str = "") -> Sequence[PipelineStep]:
    """Return the steps of another tool's pipeline, a document with several jobs; none of other files.

    Raises:
        ConfigError: with parts that no batch system runs.
    """
    if document.others or not isinstance(document.data.get("jobs"), Map):
        return ()
    with located(document.locate):
        return importers.form_of(document.data, form).steps(document.data)


def _of_steps(document: Document, steps: Sequence[PipelineStep], form: str) -> Document:
    """Return these steps as a pipeline; components in other files are read."""
    data, operations = Map(place=document.data.place), Seq(place=document.data.key_places.get("jobs"))
    data.put("kind", "pipeline")
    name = next((document.data[key] for key in _NAMES if isinstance(document.data.get(key), str)), "")
    if name:
        data.put("name", slug(name))
    for step in steps:
        place = document.place(("jobs", step.name))
        whole = named_files.with_named_file(document._replace(data=step.data), form).data.copy()
        whole.put("name", step.name, place)
        needs = Seq(place=place)
        for other, where in step.needs:
            needs.add(other, where)
        if needs:
            whole.put("needs", needs, place)
        operations.add(whole, place)
    data.put("operations", operations, document.data.key_places.get("jobs"))
    return document._replace(data=data)


def as_pipeline(document: Document, form: str = "") -> Document:
    """Return the document in the form of a pipeline; every value keeps its place.

    Raises:
        ConfigError: with what no batch system does.
    """
    if steps := steps_of(document, form):
        return _of_steps(document, steps, form)
    if not is_dag(document.data):
        return document
    whole = document.data
    run, data = _run(whole), Map(place=whole.place)
    component: Path = () if "run" in whole else ("component",)
    where = (*component, "run")
    data.put("kind", "pipeline")
    for key in ("name", "description"):
        if key in whole:
            data.copy_from(whole, key)
    _put_params(whole, whole["component"] if component else whole, data)
    problems = [*_without_equal(whole, (), (*_HARMLESS, *_GIVEN, "component" if component else "run"))]
    if component:
        problems += _without_equal(whole["component"], component, (*_HARMLESS, *_GIVEN, "run"))
    problems += _without_equal(run, where, _OF_RUN)
    listed = run.get("operations")
    found = Seq(place=run.key_places.get("operations"))
    for at, one in enumerate(listed if isinstance(listed, Seq) else ()):
        path = (*where, "operations", at)
        new = _operation(one, run, path, problems) if isinstance(one, Map) else one
        problems += _unknown_inputs(one, data.get("params") or (), path)
        found.add(new, listed.place_of(at))
    data.put("operations", found, run.key_places.get("operations"))
    if problems:
        raise ConfigError(*map(document.locate, problems))
    return document._replace(data=data)


def _put_params(whole: Map, component: Map, data: Map) -> None:
    """Put the inputs of a dag, and the params that it is given, as the params of a pipeline."""
    values = Map(place=component.key_places.get("inputs", whole.key_places.get("params")))
    listed, given = component.get("inputs"), whole.get("params")
    for one in listed if isinstance(listed, Seq) else ():
        if isinstance(one, Map) and isinstance(one.get("name"), str):
            values.put(one["name"], one.get("value"), one.value_places.get("value", one.place))
    given = given if isinstance(given, Map) else Map()
    for name, value in given.items():
        values.put(name, value.get("value") if isinstance(value, Map) else value, given.place_of(name))
    if values:
        data.put("params", values, values.place)


def _without_equal(data: Map, path: Path, known: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for each key that has no meaning for batch systems or pipelines here."""
    for key in data:
        if key not in known:
            yield Problem(
                f"`{key}` of a dag has no equal in a pipeline", (*path, Key(key)), _HINTS.get(key, _REMOVE)
            )


def _operation(one: Map, run: Map, path: Path, problems: list[Problem]) -> Map:
    """Return an operation of Polyaxon as one of a pipeline; its experiment stays one of Polyaxon."""
    new = Map(place=one.place)
    for key in (*_MINIMUM, *_KEPT):
        if key in one:
            new.copy_from(one, key)
    condition = _TRIGGERS.get(str(one.get("trigger", "all_succeeded")))
    if condition is None:
        hint = f"known: {', '.join(_TRIGGERS)}"
        problems.append(
            Problem(f"no batch system has the trigger {one['trigger']!r}", (*path, "trigger"), hint)
        )
    if isinstance(params := one.get("params"), Map):
        new.put("params", params.mapped(lambda _, value: _param(value)), one.key_places.get("params"))
    if "dagRef" in one:
        _take_component(one, run, new, path, problems)
    _put_needs(one, new, condition or "afterok")
    known = {*_MINIMUM, *_KEPT, "trigger", "dependencies", "dagRef", "kind"}
    unknown = (key for key in one if key not in known)
    problems += (
        Problem(f"`{key}` of an operation is not known to a pipeline", (*path, key), _INSTEAD.get(key, ""))
        for key in unknown
    )
    return new


def _unknown_inputs(one: Any, known: Iterable[str], path: Path) -> Iterator[Problem]:
    """Yield a problem for each input that an operation takes and the dag does not have."""
    params = one.get("params") if isinstance(one, Map) else None
    for param, value in params.items() if isinstance(params, Map) else ():
        name = _input_of(value)
        if name and name not in known:
            where = (*path, "params", Key(param), "value")
            yield Problem(f"the dag has no input {name!r}", where, did_you_mean(name, known))


def _put_needs(one: Map, new: Map, condition: str) -> None:
    """Put an operation's needs, with one condition: what it lists, and whose outputs it uses."""
    listed = one.get("dependencies") or Seq()
    needs = Seq(place=one.key_places.get("dependencies"))
    for at, name in enumerate(listed if isinstance(listed, Seq) else [listed]):
        place = listed.place_of(at) if isinstance(listed, Seq) else one.value_places.get("dependencies")
        needs.add(f"{condition}:{name}", place)
    for where, name in used_operations(new) if condition != "afterok" else ():
        if f"{condition}:{name}" not in needs:
            needs.add(f"{condition}:{name}", Document(new, "").place(where))
    if needs:
        new.put("needs", needs, one.key_places.get("dependencies"))


def _take_component(one: Map, run: Map, new: Map, path: Path, problems: list[Problem]) -> None:
    for component in run.get("components") or ():
        if isinstance(component, Map) and component.get("name") == one["dagRef"]:
            new.put("component", component, one.value_places.get("dagRef"))
            return
    problems.append(Problem(f"there is no component {one['dagRef']!r}", (*path, "dagRef")))


def _param(value: Any) -> Any:
    """Return a param that takes an input of the dag, or another operation's outputs, as a template."""
    ref, of = _reference(value)
    if name := _input_of(value):
        text = f"{{{{ params.{name} }}}}"
    elif ref.startswith("ops.") and of == "outputs.path":
        text = f"{{{{ {ref}.outputs.path }}}}"
    else:
        return value
    new = Map(place=value.place)
    new.put("value", text, value.value_places.get("value"))
    return new


def _input_of(param: Any) -> str:
    """Return the input of the dag that a param takes, empty for none."""
    ref, of = _reference(param)
    return of.removeprefix("inputs.") if ref == "dag" and of.startswith("inputs.") else ""


def _reference(param: Any) -> tuple[str, str]:
    """Return what a param refers to, and which of its values."""
    return (str(param.get("ref")), str(param.get("value"))) if isinstance(param, Map) else ("", "")


# --- What an operation needs: what it lists, and the outputs that it uses

_SINGLETON: Final = "it has one in `batch: {dependency: singleton}` of the operation itself"

Placed = tuple[Path, OperationNeed]
"""A need, and where it is written."""


def needs_of(body: Map, rest: Map, path: Path, others: Sequence[str]) -> tuple[list[Placed], list[Problem]]:
    """Return the needs of an operation, each other operation once, and the problems of its needs.

    ``rest``: its experiment, whose references to outputs are needs as well; ``others``: the operations that
    it may need.
    """
    found: dict[str, Placed] = {}
    problems: list[Problem] = []
    for where, other, condition in _written(body, path):
        if condition not in CONDITIONS:
            hint = _SINGLETON if condition == "singleton" else f"known: {', '.join(CONDITIONS)}"
            problems.append(Problem(f"no operation waits in the way {condition!r}", where, hint))
        elif other not in others:
            problems.append(_no_operation(other, body, others, where))
        elif other in found:
            message = f"it waits for {other} already ({found[other][1].condition})"
            problems.append(Problem(message, where, "name each operation once"))
        else:
            found[other] = (where, OperationNeed(other, str(condition)))
    for where, other in used_operations(rest, path):
        if other not in others:
            problems.append(_no_operation(other, body, others, where))
        else:
            found.setdefault(other, (where, OperationNeed(other)))
    return [*found.values()], problems


def _written(body: Map, path: Path) -> Iterator[tuple[Path, str, object]]:
    """Yield what it lists: where, the other operation, and the condition."""
    for key in ("needs", "dependencies"):
        written = body.get(key)
        if isinstance(written, Map):
            for other, condition in written.items():
                yield (*path, key, other), other, condition
        elif isinstance(written, Seq):
            for at, text in enumerate(written):
                yield (*path, key, at), *_condition(text)
        elif written is not None:
            yield (*path, key), *_condition(written)


def _condition(text: object) -> tuple[str, str]:
    """Read ``prep`` and ``afterany:prep``: an operation and the condition."""
    condition, colon, name = str(text).partition(":")
    return (name, condition) if colon else (str(text), "singleton" if text == "singleton" else "afterok")


def _no_operation(other: str, body: Map, others: Sequence[str], where: Path) -> Problem:
    if other == str(body.get("name")):
        return Problem(f"operation {other!r} would wait for itself", where)
    return unknown("operation", other, others, where)


# --- A file with several operations becomes a pipeline, with all of its problems at once

_KEYS: Final = ("version", "kind", "name", "description", "params", "operations")
_OWN: Final = ("name", "needs", "dependencies", "file", "path")
_SYNONYMS: Final = (("needs", "dependencies"), ("file", "path"))


def is_pipeline(document: Document, form: str = "") -> bool:
    """Return whether a file has several operations.

    Raises:
        ConfigError: if it is a pipeline of another tool that no batch system runs.
    """
    is_own = document.data.get("kind") == "pipeline" or is_dag(document.data)
    return is_own or bool(steps_of(document, form))


def read_pipeline(document: Document, options: ExperimentOptions) -> Pipeline:
    """Return the pipeline of a file; ``-p`` sets its params, ``--set OPERATION.KEY`` a key of an operation.

    Raises:
        ConfigError: with all problems of the file as a pipeline; experiments are checked later.
    """
    reading = _Reading(as_pipeline(document, options.form), options)
    pipeline = reading.pipeline()
    if errors_in(reading.problems):
        shown = (one for one in reading.problems if one.severity != "note")
        located = map(reading.document.locate, shown)
        raise ConfigError(*sorted(located, key=lambda one: one.place or Place("", 0, 0)))
    return pipeline._replace(problems=tuple(map(reading.document.locate, reading.problems)))


class _Reading:
    """The document while it is read, and the problems so far."""

    def __init__(self, document: Document, options: ExperimentOptions) -> None:
        self.document, self.options = document, options
        self.problems: list[Problem] = []
        self.params = self._params()

    def pipeline(self) -> Pipeline:
        data = self.document.data
        for key in data:
            if key not in _KEYS:
                hint = did_you_mean(key, _KEYS)
                self._refuse("a pipeline has no such key", (Key(key),), hint)
        name = data.get("name") or slug(FilePath(self.document.file).stem)
        if not RUN_NAME.fullmatch(str(name)):
            self._refuse(f"{name!r} cannot be the name of a pipeline", ("name",), RUN_NAME_FORM)
        listed = data.get("operations")
        if not isinstance(listed, Seq) or not listed:
            self._refuse("a pipeline has a list of operations", ("operations",), "write `- name: ...`")
            listed = Seq()
        named = [*self._named(listed)]
        known = [name for _, name, _ in named]
        found = [self._operation(("operations", at), own, body, known) for at, own, body in named]
        self._check_settings(known)
        ordered = self._ordered(found)
        if not errors_in(self.problems):
            self.problems += _alone(found)
            self.problems += self._unused_params(found)
        return Pipeline(str(name), self.document, ordered, self.params)

    def _named(self, listed: Sequence[Any]) -> Iterator[tuple[int, str, Map]]:
        """Yield the operations with a valid and unique name."""
        seen: dict[str, int] = {}
        for at, body in enumerate(listed):
            path: Path = ("operations", at)
            name = body.get("name") if isinstance(body, Map) else None
            if name is None:
                self._refuse("an operation has a name", path, "write `- name: prep`")
            elif not RUN_NAME.fullmatch(str(name)) or str(name).isdecimal():
                hint = f"{RUN_NAME_FORM}, one letter at least"
                self._refuse(f"{name!r} cannot be the name of an operation", (*path, "name"), hint)
            elif str(name) in seen:
                first = self.document.place(("operations", seen[str(name)], "name"))
                line = first.line if first else 0
                message = f"there are two operations {str(name)!r}; the other one is in line {line}"
                self._refuse(message, (*path, "name"), "give each a name of its own")
            else:
                seen[str(name)] = at
                yield at, str(name), body

    def _operation(self, path: Path, name: str, body: Map, known: Sequence[str]) -> Operation:
        rest = body.copy()
        for key in _OWN:
            rest.drop(key)
        for first, second in _SYNONYMS:
            if first in body and second in body:
                hint = f"put both into `{first}`" if first == "needs" else "remove one of both"
                self._refuse(
                    f"an operation has `{first}` or `{second}`, not both", (*path, Key(second)), hint
                )
        own_needs, problems = needs_of(body, rest, path, [one for one in known if one != name])
        self.problems += problems
        needs = {need.operation: need._replace(place=self.document.place(where)) for where, need in own_needs}
        self.problems += malformed_references(rest, path)
        self.problems += self._unused(path, name, needs, rest)
        own = self.options._replace(params=(), settings=tuple(self._settings(name)))
        place = self.document.place((*path, "name"))
        file = next((body[key] for key in ("file", "path") if key in body), None)
        if file is None:
            inline = self.document._replace(data=rest, others=())
            return Operation(name, own, inline, (*needs.values(),), place=place)
        own, document = self._of_file(path, str(file), own, rest)
        given = self._given(path, rest)
        return Operation(name, own, document, (*needs.values(),), is_inline=False, place=place, params=given)

    def _of_file(
        self, path: Path, file: str, own: ExperimentOptions, rest: Map
    ) -> tuple[ExperimentOptions, Document]:
        """Return the options and the document of an experiment in another file."""
        for key in rest:
            if key != "params":
                hint = f"write it into {file}, or set it: `--set OPERATION.{key}=...`"
                self._refuse("an operation with a file may have only params as well", (*path, Key(key)), hint)
        where = FilePath(self.document.file).parent / file
        try:
            document = recognition.read(where)
        except ConfigError as error:
            found = (one if one.place and one.place.line else one._replace(place=None, path=(*path, "file"))
                     for one in error.problems)  # fmt: skip
            self.problems += found
            document = self.document._replace(data=Map())
        return own._replace(file=str(where), form=""), document

    def _given(self, path: Path, rest: Map) -> Map:
        """Return the params of an operation whose experiment is in another file."""
        given = rest.get("params") or Map()
        if isinstance(given, Map):
            return given
        self._refuse("params are keys and values", (*path, "params"), "write `params: {NAME: VALUE}`")
        return Map()

    def _unused(
        self, path: Path, name: str, needs: Mapping[str, OperationNeed], rest: Map
    ) -> Iterator[Problem]:
        used = {other for _, other in used_operations(rest)}
        for other, need in needs.items():
            if other not in used and need.condition == "afterok":
                message = f"{name} waits for {other}, and uses none of its outputs"
                hint = f"its folder is `{{{{ ops.{other}.outputs.path }}}}`"
                yield Problem(message, path, hint, "note", need.place)

    def _params(self) -> dict[str, object]:
        declared = self.document.data.get("params") or Map()
        if not isinstance(declared, Map):
            self._refuse("params are keys and values", ("params",), "write `params: {NAME: VALUE}`")
            declared = Map()
        params = dict(declared)
        for name, text in self.options.params:
            place = Place(f"-p {name}={text}", 0, 0)
            if name not in declared:
                self.problems.append(unknown("param", name, declared)._replace(place=place))
            else:
                params[name] = source.read_value(text, place)
        return params

    def _unused_params(self, found: Sequence[Operation]) -> Iterator[Problem]:
        """Yield a warning for each param of the pipeline that no operation uses."""
        taken = (one.document.data if one.is_inline else one.params for one in found)
        used = {name for data in taken for name in used_params(data)}
        for name in self.params:
            if name not in used:
                hint = f"write `{{{{ params.{name} }}}}` where it belongs, or remove it"
                message = f"no operation uses the param {name!r}"
                yield Problem(message, ("params", Key(name)), hint, "warning")

    def _settings(self, name: str) -> Iterator[tuple[str, str]]:
        for key, text in self.options.settings:
            operation, _, rest = key.partition(".")
            if key == FOR_ALL:
                yield key, text
            elif operation == name and rest:
                yield rest, text

    def _check_settings(self, known: Sequence[str]) -> None:
        for key, text in self.options.settings:
            operation, dot, _ = key.partition(".")
            if (operation not in known or not dot) and key != FOR_ALL:
                place = Place(f"--set {key}={text}", 0, 0)
                hint = f"write OPERATION.{key}; {did_you_mean(operation, known)}"
                message = "a setting of a pipeline begins with the name of an operation"
                self.problems.append(Problem(message, hint=hint, place=place))

    def _ordered(self, found: Sequence[Operation]) -> tuple[Operation, ...]:
        """Return the operations, each after what it needs, else in the order of the file."""
        by_name = {one.name: one for one in found}
        sorter = graphlib.TopologicalSorter({one.name: [n.operation for n in one.needs] for one in found})
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            circle = error.args[1][::-1]
            places = {need.operation: need.place for need in by_name[circle[0]].needs}
            message = f"these operations wait for each other: {' needs '.join(circle)}"
            hint = "remove one of these needs, or the reference to outputs that implies it"
            self.problems.append(Problem(message, (), hint, place=places.get(circle[1])))
            return tuple(found)
        ordered: list[Operation] = []
        while sorter.is_active():
            ready = sorter.get_ready()
            ordered += [one for one in found if one.name in ready]
            sorter.done(*ready)
        return tuple(ordered)

    def _refuse(self, message: str, path: Path, hint: str = "") -> None:
        self.problems.append(Problem(message, path, hint))


def _alone(found: Sequence[Operation]) -> Iterator[Problem]:
    """Yield a warning for each operation without a connection to others."""
    needed = {need.operation for one in found for need in one.needs}
    for one in found:
        if len(found) > 1 and not one.needs and one.name not in needed:
            message = f"nothing uses the outputs of {one.name} or waits for it, and it waits for nothing"
            yield Problem(message, (), "is a `needs` missing?", "warning", one.place)

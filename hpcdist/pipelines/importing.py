"""Pipelines of other tools, where they are data: Polyaxon's ``run.kind: dag``, documents of several jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from hpcdist import importers
from hpcdist.documents.tree import Document, Map, Seq
from hpcdist.errors import ConfigError, Key, Path, Problem, did_you_mean, located
from hpcdist.importers import Step
from hpcdist.loading import named_files
from hpcdist.pipelines import references
from hpcdist.words import slug

_TRIGGERS: Final = {"all_succeeded": "afterok", "all_done": "afterany", "all_failed": "afternotok"}
_NAMES: Final = ("name", "display_name", "experiment_name")
_HARMLESS: Final = ("version", "kind", "name", "description", "tags")
"""What a pipeline has of its own, or that says nothing of how it runs."""

_REMOVE: Final = "remove it"
_HINTS: Final = {
    "schedule": "use cron",
    "matrix": "write it into the operation that is a search",
}
_INSTEAD: Final = {
    "hubRef": "it is kept in Polyaxon's hub: write it as a file beside this one, and `pathRef: ./NAME.yml`",
    "urlRef": "nothing is fetched: save it beside this file, and write `pathRef: ./NAME.yml`",
    "conditions": "no batch system looks at values: test them in the command, or use `trigger`",
    "schedule": "use cron",
    "matrix": "write it as `hptuning` into the file of an operation of its own",
}
"""What an operation of Polyaxon may have that no operation here has, and what to write instead."""

_GIVEN: Final = ("params", "inputs")
"""What gives values to a dag, which its operations take by ``ref: dag``."""

_OF_RUN: Final = ("kind", "operations", "components")
_MINIMUM: Final = ("name", "version", "description", "tags")
_KEPT: Final = ("component", "pathRef", "params", "environment", "runPatch", "termination")


def is_dag(data: Map) -> bool:
    """Return whether a file is a component of Polyaxon 1 or 2 with several operations."""
    return isinstance(_run(data), Map) and _run(data).get("kind") == "dag"


def _run(data: Map) -> Any:
    component = data.get("component")
    return data.get("run", component.get("run") if isinstance(component, Map) else None)


def steps_of(document: Document, form: str = "") -> Sequence[Step]:
    """Return the steps of a pipeline of another tool whose document has several jobs; none of any other.

    Raises:
        ConfigError: with what of it no batch system runs.
    """
    if document.others or not isinstance(document.data.get("jobs"), Map):
        return ()
    with located(document.locate):
        return importers.steps_in(document.data, form)


def _of_steps(document: Document, steps: Sequence[Step], form: str) -> Document:
    """Return such steps as a pipeline; the component of one that is in another file is read."""
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
    """Yield a problem for each key that no batch system, or no pipeline here, does anything for."""
    for key in data:
        if key not in known:
            yield Problem(
                f"`{key}` of a dag has no equal in a pipeline", (*path, Key(key)), _HINTS.get(key, _REMOVE)
            )


def _operation(one: Map, run: Map, path: Path, problems: list[Problem]) -> Map:
    """Return an operation of Polyaxon as one of a pipeline, whose experiment is one of Polyaxon, too."""
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
    """Yield a problem for each input of the dag that an operation takes, and the dag does not have."""
    params = one.get("params") if isinstance(one, Map) else None
    for param, value in params.items() if isinstance(params, Map) else ():
        name = _input_of(value)
        if name and name not in known:
            where = (*path, "params", Key(param), "value")
            yield Problem(f"the dag has no input {name!r}", where, did_you_mean(name, known))


def _put_needs(one: Map, new: Map, condition: str) -> None:
    """Put what an operation waits for, all in one way: what it lists, and whose outputs it uses."""
    listed = one.get("dependencies") or Seq()
    needs = Seq(place=one.key_places.get("dependencies"))
    for at, name in enumerate(listed if isinstance(listed, Seq) else [listed]):
        place = listed.place_of(at) if isinstance(listed, Seq) else one.value_places.get("dependencies")
        needs.add(f"{condition}:{name}", place)
    for where, name in references.operations(new) if condition != "afterok" else ():
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
    """Return a param that is an input of the dag, or the outputs of another operation, as that reference."""
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

"""Pipelines of other tools, where they are data: Polyaxon's ``run.kind: dag``."""

from __future__ import annotations

from typing import Any, Final

from hpcdist.documents.tree import Document, Map, Seq
from hpcdist.errors import ConfigError, Path, Problem

_TRIGGERS: Final = {"all_succeeded": "afterok", "all_done": "afterany", "all_failed": "afternotok"}
_NEVER: Final = ("concurrency", "earlyStopping", "connections", "volumes")
_MINIMUM: Final = ("name", "version", "description", "tags")
_KEPT: Final = ("component", "pathRef", "params", "environment", "runPatch", "termination")


def is_dag(data: Map) -> bool:
    """Return whether a file is a component of Polyaxon 1 or 2 with several operations."""
    return isinstance(_run(data), Map) and _run(data).get("kind") == "dag"


def _run(data: Map) -> Any:
    component = data.get("component")
    return data.get("run", component.get("run") if isinstance(component, Map) else None)


def as_pipeline(document: Document) -> Document:
    """Return the document in the form of a pipeline; every value keeps its place.

    Raises:
        ConfigError: with what no batch system does.
    """
    if not is_dag(document.data):
        return document
    run, data = _run(document.data), Map(place=document.data.place)
    where: Path = ("run",) if "run" in document.data else ("component", "run")
    data.put("kind", "pipeline")
    if "name" in document.data:
        data.copy_from(document.data, "name")
    problems: list[Problem] = []
    listed = run.get("operations")
    found = Seq(place=run.key_places.get("operations"))
    for at, one in enumerate(listed if isinstance(listed, Seq) else ()):
        path = (*where, "operations", at)
        new = _operation(one, run, path, problems) if isinstance(one, Map) else one
        found.add(new, listed.place_of(at))
    data.put("operations", found, run.key_places.get("operations"))
    problems += (
        Problem(f"a batch system has no `{key}` of a pipeline", (*where, key), "remove it")
        for key in _NEVER
        if key in run
    )
    if problems:
        raise ConfigError(*map(document.locate, problems))
    return document._replace(data=data)


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
    if isinstance(needs := one.get("dependencies"), Seq):
        with_condition = needs.mapped(lambda _, name: f"{condition or 'afterok'}:{name}")
        new.put("needs", with_condition, one.key_places.get("dependencies"))
    if isinstance(params := one.get("params"), Map):
        new.put("params", params.mapped(lambda _, value: _param(value)), one.key_places.get("params"))
    if "dagRef" in one:
        _take_component(one, run, new, path, problems)
    known = {*_MINIMUM, *_KEPT, "trigger", "dependencies", "dagRef", "kind"}
    unknown = (key for key in one if key not in known)
    problems += (
        Problem(f"`{key}` of an operation is not known to a pipeline", (*path, key)) for key in unknown
    )
    return new


def _take_component(one: Map, run: Map, new: Map, path: Path, problems: list[Problem]) -> None:
    for component in run.get("components") or ():
        if isinstance(component, Map) and component.get("name") == one["dagRef"]:
            new.put("component", component, one.value_places.get("dagRef"))
            return
    problems.append(Problem(f"there is no component {one['dagRef']!r}", (*path, "dagRef")))


def _param(value: Any) -> Any:
    """Return a param whose value is the outputs of another operation as that reference."""
    ref = value.get("ref") if isinstance(value, Map) else None
    if not isinstance(ref, str) or not ref.startswith("ops.") or value.get("value") != "outputs.path":
        return value
    new = Map(place=value.place)
    new.put("value", f"{{{{ {ref}.outputs.path }}}}", value.value_places.get("value"))
    return new

"""Options in another file: ``paramsFile`` of a step of GradientCI, ``--optionsFile`` of a command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers.gradient import ci

_OPTIONS_FILE: Final = "optionsFile"
_PARAMS_FILE: Final = "paramsFile"


def file_named_in(data: Map) -> tuple[Path, str] | None:
    """Return the key that names a file and its path, as `importers.NamesFile.file_named_in`."""
    name = data.get(_OPTIONS_FILE)
    if isinstance(name, str) and name:
        return (_OPTIONS_FILE,), name
    step, content = _only_step(data)
    name = content.get(_PARAMS_FILE) if "params" not in content else None
    return ((*step, _PARAMS_FILE), name) if isinstance(name, str) and name else None


def with_named_file(data: Map, other: Map) -> Map:
    """Return the data with these options; those of a command line take precedence."""
    if _OPTIONS_FILE in data:
        merged = data.copy()
        merged.drop(_OPTIONS_FILE)
        for option in (option for option in other if option not in data):
            merged.copy_from(other, option)
        return merged
    step, _ = _only_step(data)
    return _changed(data, step, lambda content: _with_params(content, other))


def _only_step(data: Map) -> tuple[Path, Map]:
    """Return the one step of a file of GradientCI with its path, an empty section for any other file."""
    steps = [path for path in ci.jobs_of(data) if ci.form_of(data) == "workflows"]
    if len(steps) != 1:
        return (), Map()
    _, workflow, _, index = steps[0]
    content: Map = data["workflows"][workflow]["steps"][index]
    return steps[0], content


def _with_params(content: Map, other: Map) -> Map:
    new = content.copy()
    new.rename(_PARAMS_FILE, "params")
    new["params"] = other
    return new


def _changed(node: Any, path: Path, change: Callable[[Map], Map]) -> Map:
    """Return a copy of a section or a list with the section at the path changed."""
    if not path:
        return change(node)
    step, *rest = path
    copy: Map = node.mapped(lambda key, item: _changed(item, tuple(rest), change) if key == step else item)
    return copy

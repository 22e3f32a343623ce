"""Changes of an experiment file from the command line: ``--set a.b=value`` and ``-p name=value``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from hpcdist.documents.source import read_value
from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Key, Path, Place, Problem, did_you_mean, dotted
from hpcdist.words import quote

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
    """Yield the params of a search, which need no value of their own; with one there is a warning."""
    section = data.get("hptuning")
    search = section if isinstance(section, Map) else Map()
    listed = search.get("mapping")
    of_trials = (search.get("matrix"), *(listed if isinstance(listed, Seq) else ()))
    return (name for part in of_trials if isinstance(part, Map) for name in part)


def with_params(data: Map, given: Mapping[str, str]) -> tuple[Map, list[Problem]]:
    """Return the data with new values for some params; an unknown name is a problem."""
    if not given:
        return data, []
    params, declared = data.get("params"), data.get("inputs")
    new = params.copy() if isinstance(params, Map) else Map()
    inputs = [item for item in declared if isinstance(item, Map)] if isinstance(declared, Seq) else []
    kinds = {str(item.get("name")): item.get("type") for item in inputs}
    known = {*new, *kinds, *_searched(data)}
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

"""Searches of Polyaxon 0.x as one section, ``hptuning``, with the keys of its last versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Key, Path, Problem

KEYS: Final = ("matrix", "concurrency")
"""Keys of ``hptuning`` that stood at the top level until 0.0.4."""

SETTINGS: Final[Mapping[str, str]] = {
    **{name: name for name in ("matrix", "concurrency", "grid_search", "random_search", "hyperband", "bo",
                               "early_stopping", "n_experiments")},
    "concurrent_experiments": "concurrency",
    "search_method": "search_method",
}  # fmt: skip
"""Those that stood in ``settings`` until 0.1, with their later names."""

_ALGORITHMS: Final = {"random": "random_search", "grid": "grid_search", "sequential": "grid_search"}
_WORDS: Final = ("optimization", "type", "kind")
"""Keys whose words Polyaxon takes in capitals, too."""


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Move what earlier versions had elsewhere into ``hptuning``, under the names of later ones."""
    section = data.get("hptuning")
    moved: list[tuple[Path, Map, str]] = [((key,), data, key) for key in KEYS if key in data]
    settings = data.get("settings")
    if isinstance(settings, Map):
        moved += [(("settings", Key(key)), settings, key) for key in SETTINGS if key in settings]
    if not moved and not isinstance(section, Map):
        return
    new = section.copy() if isinstance(section, Map) else Map(place=data.place)
    for path, source, key in moved:
        _move(new, source, key, path, remarks)
    if _is_refused(new, moved[0][0] if moved else ("hptuning", "matrix"), remarks):
        data.drop("hptuning")
        return
    _name_algorithm(new)
    named = new.mapped(lambda key, value: _lowered(value) if key != "matrix" else value)
    if isinstance(hyperband := named.get("hyperband"), Map):
        hyperband.rename("max_iter", "max_iterations")
    place = data.value_places.get("hptuning") or moved[0][1].place_of(moved[0][2])
    data.put("hptuning", named, place, key_place=data.key_places.get("hptuning"))


def _move(new: Map, source: Map, key: str, path: Path, remarks: list[Problem]) -> None:
    name = SETTINGS[key]
    if name in new:
        message = f"`{'.'.join(map(str, path))}` and `hptuning.{name}` are the same"
        remarks.append(Problem(message, path, f"keep `hptuning.{name}`", place=source.place_of(key)))
    else:
        new.copy_from(source, key, name)
    source.drop(key)


def _is_refused(new: Map, path: Path, remarks: list[Problem]) -> bool:
    """Refuse a matrix of Polyaxon 1 and 2; one of earlier versions may have a param `kind`, with values."""
    matrix = new.get("matrix")
    is_newer = isinstance(matrix, Map) and isinstance(matrix.get("kind"), str)
    if is_newer:
        hint = "write the params as `matrix: {lr: {values: [1, 2]}}`, or `kind: operation` with a `component`"
        message = "a matrix with a `kind` is one of Polyaxon 1 and 2, and this file is none of theirs"
        remarks.append(Problem(message, path, hint, place=new.place_of("matrix")))
    return is_newer


def _name_algorithm(new: Map) -> None:
    """Write an algorithm that is named beside the number of its trials as a section, as later versions do."""
    if not {"search_method", "n_experiments"} & new.keys():
        return
    method, place = str(new.get("search_method", "grid")).lower(), new.place_of("search_method")
    section = Map(place=place or new.place_of("n_experiments"))
    if "n_experiments" in new:
        section.copy_from(new, "n_experiments")
    new.drop("search_method")
    new.drop("n_experiments")
    if (name := _ALGORITHMS.get(method, method)) not in new:
        new.put(name, section, section.place)


def _lowered(node: Any, key: object = None) -> Any:
    """Return a copy in which the words of some keys are in small letters: ``MAXIMIZE``, ``Int``."""
    if isinstance(node, Map):
        return node.mapped(lambda name, item: _lowered(item, name))
    if isinstance(node, list):
        return node.mapped(lambda _, item: _lowered(item)) if hasattr(node, "mapped") else node
    return node.lower() if isinstance(node, str) and key in _WORDS else node

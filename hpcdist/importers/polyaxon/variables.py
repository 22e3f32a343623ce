"""Variables of Polyaxon: pairs ``[[NAME, value]]``, which some files write as keys, and the other way round.

``build.env_vars`` are pairs in Polyaxon 0.x (polyaxon-schemas 0.6.1, ``ops/build_job``).
"""

from __future__ import annotations

from typing import Any, Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Problem

_PAIR: Final = 2
_LISTED: Final = {"name", "value"}


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Make keys of the pairs in ``environment.env_vars``, and pairs of the keys in ``build.env_vars``."""
    environment, build = data.get("environment"), data.get("build")
    if isinstance(environment, Map) and isinstance(environment.get("env_vars"), Seq):
        data["environment"] = environment.copy()
        data["environment"]["env_vars"] = _keys(environment["env_vars"], remarks)
    if isinstance(build, Map) and isinstance(build.get("env_vars"), (Map, Seq)):
        data["build"] = build.copy()
        data["build"]["env_vars"] = _pairs(build["env_vars"])


def _keys(pairs: Seq, remarks: list[Problem]) -> Map:
    new = Map(place=pairs.place)
    for index, item in enumerate(pairs):
        place, pair = pairs.place_of(index), _as_pair(item)
        name = str(pair[0]) if len(pair) == _PAIR else ""
        if not name or name in new:
            message = f"{name} is set twice" if name else f"{item!r} is not a variable"
            path = ("environment", "env_vars", index)
            remarks.append(Problem(message, path, "write `NAME: value`", place=place))
            continue
        new.put(name, pair[1], pair.place_of(1) or place, key_place=place)
        if 1 in pair.texts:
            new.texts[name] = pair.texts[1]
    return new


def _as_pair(item: Any) -> Seq:
    """Return ``[NAME, value]``, also of ``{name: NAME, value: VALUE}``; an empty one of anything else."""
    if isinstance(item, Map) and item.keys() == _LISTED:
        pair = Seq(place=item.place)
        for key in ("name", "value"):
            pair.add(item[key], item.place_of(key), item.texts.get(key))
        return pair
    whole = (
        isinstance(item, Seq) and len(item) == _PAIR and not any(isinstance(x, (dict, list)) for x in item)
    )
    return item if whole else Seq()


def _pairs(variables: Map | Seq) -> Seq:
    if isinstance(variables, Seq):
        return variables.mapped(lambda _, item: _as_pair(item) or item)
    pairs = Seq(place=variables.place)
    for name in variables:
        pair = Seq([name], place=variables.place_of(name))
        pair.add(variables[name], variables.place_of(name), variables.texts.get(name))
        pairs.add(pair, variables.place_of(name))
    return pairs

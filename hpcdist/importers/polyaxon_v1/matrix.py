"""The searches of Polyaxon 1 and 2 (``V1Matrix``) as the section ``hptuning``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers.polyaxon_v1.text import Input
from hpcdist.importers.reading import Reading

_KEYS: Final = ("matrix", "parallel")
"""The second is its name in the previews of Polyaxon 1."""

_SPACES: Final = {
    "choice": "values", "pchoice": "pvalues", "range": "range", "linspace": "linspace",
    "logspace": "logspace", "geomspace": "geomspace", "uniform": "uniform", "quniform": "quniform",
    "loguniform": "loguniform", "qloguniform": "qloguniform", "normal": "normal", "qnormal": "qnormal",
    "lognormal": "lognormal", "qlognormal": "qlognormal",
}  # fmt: skip
_ALGORITHMS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "grid": ("grid_search", {"numRuns": "n_experiments"}),
    "random": ("random_search", {"numRuns": "n_experiments"}),
    "mapping": ("", {}),
    "hyperband": (
        "hyperband",
        {"maxIterations": "max_iterations", "eta": "eta", "resource": "resource", "metric": "metric",
         "resume": "resume"},
    ),
    "bayes": (
        "bo",
        {"numInitialRuns": "n_initial_trials", "maxIterations": "n_iterations", "metric": "metric",
         "utilityFunction": "utility_function"},
    ),
}  # fmt: skip
_SHARED: Final = {"concurrency": "concurrency", "seed": "seed"}
_NUMBERS: Final = frozenset(_SPACES) - {"choice", "pchoice"}


def put_search(read: Reading) -> dict[str, Input]:
    """Put the search, if there is one; return the params that it has, for texts."""
    key = next((key for key in _KEYS if read.peek(key)), "")
    kind = str(read.get(key, "kind")) if key else ""
    if not key:
        return {}
    if kind not in _ALGORITHMS:
        hint = f"write one of {', '.join(_ALGORITHMS)}"
        read.refuse(key, "kind", why=f"searches of the kind {kind!r} are not run", hint=hint)
        read.get(key)
        return {name: Input() for name in read.keys(key, "params")}
    search = Map(place=read.place(key))
    _copy(read, search, _SHARED, key)
    name, keys = _ALGORITHMS[kind]
    section = Map(place=read.place(key, "kind"))
    _copy(read, section, keys, key)
    if name:
        search.put(name, section, read.place(key, "kind"))
    read.ignore(key, "tuner", why="hpcdist chooses the trials itself")
    read.ignore(key, "earlyStopping", why="no trial is stopped early yet, and all of them run")
    found = _trials(read, search, key) if kind == "mapping" else _spaces(read, search, key)
    read.put("hptuning", search, key)
    return found


def _copy(read: Reading, to: Map, names: Mapping[str, str], key: str) -> None:
    source = read.peek(key)
    for old, new in names.items():
        if old in source:
            read.get(key, old)
            to.copy_from(source, old, new)


def _trials(read: Reading, search: Map, key: str) -> dict[str, Input]:
    search.copy_from(read.peek(key), "values", "mapping") if read.get(key, "values") else None
    trials = [item for _, item in read.items(key, "values") if isinstance(item, Mapping)]
    names = {name: None for trial in trials for name in trial}
    return {name: Input(all(map(_is_number, (trial.get(name) for trial in trials)))) for name in names}


def _spaces(read: Reading, search: Map, key: str) -> dict[str, Input]:
    matrix, found = Map(place=read.place(key, "params")), {}
    for name in read.keys(key, "params"):
        matrix.put(name, _space(read, (key, "params", name)), read.place(key, "params", name))
        found[name] = Input(_is_plain(read, (key, "params", name)))
    search.put("matrix", matrix, read.place(key, "params"))
    return found


def _space(read: Reading, path: Path) -> Map:
    """Return the values of one param, under the key that names their kind."""
    kind, space = read.get(*path, "kind"), Map(place=read.place(*path))
    read.get(*path, "value")
    if kind in _SPACES:
        section = read.peek(*path)
        if isinstance(section, Map) and "value" in section:
            space.copy_from(section, "value", _SPACES[kind])
    else:
        read.refuse(
            *path, "kind", why=f"values of the kind {kind!r} are not searched", hint="write `kind: choice`"
        )
    return space


def _is_plain(read: Reading, path: Path) -> bool:
    """Whether its values are numbers, which need no quotes in a command."""
    kind, values = read.peek(*path, "kind"), read.peek(*path, "value")
    if kind == "pchoice" and isinstance(values, list):
        values = [pair[0] for pair in values if isinstance(pair, list) and pair]
    return kind in _NUMBERS or (isinstance(values, list) and all(map(_is_number, values)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))

"""The searches of Polyaxon 1 and 2 (``V1Matrix``) as the section ``hptuning``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers.polyaxon_v1.text import Input
from hpcdist.importers.reading import Reading
from hpcdist.importers.searches import Search

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
    "hyperopt": ("", {}),
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
_HYPEROPT: Final = {"tpe": 20, "anneal": 1}
"""How many trials Hyperopt draws at random at first (0.2.7, ``_default_n_startup_jobs`` of ``tpe.py``)."""
_SHARED: Final = {"concurrency": "concurrency", "seed": "seed"}
_POLICIES: Final = {"median": "median", "truncation": "truncation", "diff": "difference"}
_POLICY_KEYS: Final = {
    "evaluationInterval": "evaluation_interval",
    "minInterval": "min_interval",
    "minSamples": "min_samples",
    "percent": "percent",
}
_NUMBERS: Final = frozenset(_SPACES) - {"choice", "pchoice"}


def put_search(read: Reading) -> dict[str, Input]:
    """Put the search, if there is one; return the params that it has, for texts."""
    key = next((key for key in _KEYS if read.peek(key)), "")
    kind = str(read.get(key, "kind")) if key else ""
    if not key:
        return {}
    if kind not in _ALGORITHMS:
        hint = f"write one of {', '.join(_ALGORITHMS)}"
        why = f"there are no searches of the kind {kind!r}"
        if kind == "iterative":
            why = "the trials of an iterative search come from a tuner, which is a program of its own"
        read.refuse(key, "kind", why=why, hint=hint)
        read.get(key)
        return {name: Input() for name in read.keys(key, "params")}
    search = Search(read, key)
    search.copy(_SHARED, key)
    name, keys = _ALGORITHMS[kind]
    if name:
        section = Map(place=read.place(key, "kind"))
        search.copy(keys, key, to=section)
        search.put(name, section, key, "kind")
    if kind == "hyperopt":
        _put_hyperopt(read, search, key)
    read.ignore(key, "tuner", why="hpcdist chooses the trials itself")
    _put_early_stopping(read, search, (key, "earlyStopping"))
    found = _trials(read, search, key) if kind == "mapping" else _spaces(read, search, key)
    search.write()
    return found


def _put_hyperopt(read: Reading, search: Search, key: str) -> None:
    """Put as many trials as ``maxIterations`` rounds of ``numRuns``, of which the first ones are random.

    Source: hypertune 1.2.1, ``search_managers/hyperopt/manager.py``: a round has ``num_runs`` trials.
    """
    algorithm = (read.text(key, "algorithm") or "").lower()
    each = _count(read, (key, "numRuns"), 0) or 1
    total = each * _count(read, (key, "maxIterations"), 1)
    search.copy({"metric": "metric"}, key)
    if algorithm in _HYPEROPT and "metric" not in search.section:
        hint = "write `metric: {name: NAME, optimization: minimize}`"
        read.refuse(key, why="which trial is best is not said", hint=hint)
    elif algorithm in _HYPEROPT:
        initial = max(each, _HYPEROPT[algorithm])
        search.bayes(total, initial, f"Hyperopt's {algorithm}", key, "algorithm")
        return
    elif algorithm != "rand":
        why = f"{algorithm!r} is no algorithm of Hyperopt" if algorithm else "the algorithm is missing"
        read.refuse(key, "algorithm", why=why, hint="write tpe, anneal or rand")
    search.static("random_search", total, key, "numRuns")


def _count(read: Reading, path: Path, default: int) -> int:
    value = read.get(*path)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if value is not None or not default:
        why = f"{path[-1]!r} is missing" if value is None else f"{value!r} is no number of trials"
        read.refuse(*path, why=why, hint="write a whole number")
    return default


def _put_early_stopping(read: Reading, search: Search, path: Path) -> None:
    """Put the values of metrics at which the search stops."""
    if not read.peek(*path):
        read.get(*path)
    for at, one in read.items(*path):
        where = (*path, at)
        kind = str(read.get(*where, "kind") if isinstance(one, Map) else one)
        if kind == "failure_early_stopping":
            read.get(*where)
            why, hint = (
                "a share of failed trials ends no search",
                "a number does: `--set hptuning.max_failures=5`",
            )
            read.warn(*where, why=why, hint=hint)
        elif kind != "metric_early_stopping":
            hint = "write `kind: metric_early_stopping`"
            read.refuse(*where, why=f"{kind!r} is no kind of early stopping", hint=hint)
        else:
            search.stop(_stop(read, search, where), *where)


def _stop(read: Reading, search: Search, where: Path) -> Map:
    """Return when the search stops, or with a policy which running trials end, whatever the value is."""
    stop, names = Map(place=read.place(*where)), ["metric", "value", "optimization"]
    if read.peek(*where, "policy") is not None:
        names.remove("value")
        if read.get(*where, "value") is not None:
            read.warn(*where, "value", why="beside a policy it stops nothing, as in Polyaxon")
        if policy := _policy(read, search, (*where, "policy")):
            stop.put("policy", policy, policy.place)
    elif read.get(*where, "value") is None:
        read.refuse(*where, why="the value at which the search stops is missing", hint="write `value`")
    search.copy({name: name for name in names}, *where, to=stop)
    return stop


def _policy(read: Reading, search: Search, path: Path) -> Map | None:
    """Return the policy by which trials end; None, with an error, where it is none."""
    kind, policy = str(read.get(*path, "kind")), Map(place=read.place(*path))
    if kind not in _POLICIES:
        read.refuse(*path, why=f"{kind!r} is no policy", hint="write `kind: median`, `truncation` or `diff`")
        read.get(*path)
        return None
    policy.put("kind", _POLICIES[kind], read.place(*path, "kind"))
    if read.get(*path, "includeSucceeded") is False:
        why = "includeSucceeded has no effect: all trials that got as far are compared"
        read.warn(*path, "includeSucceeded", why=why)
    search.copy(_POLICY_KEYS, *path, to=policy)
    return policy


def _trials(read: Reading, search: Search, key: str) -> dict[str, Input]:
    read.get(key, "values")
    search.copy({"values": "mapping"}, key)
    trials = [item for _, item in read.items(key, "values") if isinstance(item, Mapping)]
    names = {name: None for trial in trials for name in trial}
    return {
        name: Input(
            plain=all(_is_number(trial.get(name)) for trial in trials),
            required=any(name not in trial for trial in trials),
        )
        for name in names
    }


def _spaces(read: Reading, search: Search, key: str) -> dict[str, Input]:
    found = {}
    for name in read.keys(key, "params"):
        search.add(name, _space(read, (key, "params", name)), key, "params", name)
        found[name] = Input(_is_plain(read, (key, "params", name)))
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

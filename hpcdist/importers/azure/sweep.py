"""Sweeps of Azure ML: their search space and limits, as the section ``hptuning``; the trial is the job.

Sources: https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-sweep (CLI v2), and the
previews of 2021, which have ``algorithm``, ``spec`` and ``max_total_runs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path, did_you_mean
from hpcdist.importers.azure.command import Param
from hpcdist.importers.reading import Reading, placed
from hpcdist.importers.searches import put_bayes, put_early_termination, refused_space

_BOUNDS: Final = {"low": "min_value", "high": "max_value"}
_MOMENTS: Final = {"loc": "mu", "scale": "sigma"}
_SPACES: Final[Mapping[str, Mapping[str, str]]] = {
    "choice": {},
    "randint": {"stop": "upper"},
    **dict.fromkeys(("uniform", "loguniform"), _BOUNDS),
    **{kind: {**_BOUNDS, "q": "q"} for kind in ("quniform", "qloguniform")},
    **dict.fromkeys(("normal", "lognormal"), _MOMENTS),
    **{kind: {**_MOMENTS, "q": "q"} for kind in ("qnormal", "qlognormal")},
}
"""The distributions, and the keys of their numbers by the native ones."""
_ALGORITHMS: Final = {"random": "random_search", "grid": "grid_search", "bayesian": "random_search"}
_LIMITS: Final = (("limits",), ())
_DEFAULT_TRIALS: Final = 1000
_INITIAL: Final = 10
"""How many trials of Optuna's TPE are random by default; of Azure's own algorithm nothing is documented."""
_WHOLE: Final = "it limits the whole sweep; a trial has `limits: {trial_timeout: SECONDS}`"
_IGNORED: Final = {
    **dict.fromkeys(("timeout_minutes", "max_duration_minutes"), _WHOLE),
}


def put_search(read: Reading, searched: Mapping[str, Param]) -> None:
    """Put the search of a sweep; ``searched`` are the params of its search space."""
    if "search_space" not in read.data:
        return
    search, matrix = Map(place=read.place("search_space")), Map(place=read.place("search_space"))
    if not read.section("search_space"):
        read.refuse("search_space", why="a sweep needs the values of its inputs", hint="write `search_space`")
    for name, param in searched.items():
        path: Path = ("search_space", name)
        matrix.put(param.name, _space(read, path) or refused_space(read.place(*path)), read.place(*path))
    _put_number(read, search, "concurrency", "max_concurrent_trials", "max_concurrent_runs")
    _put_objective(read, search)
    put_early_termination(read, search)
    _put_algorithm(read, search)
    for above in _LIMITS:
        read.ignore_all(_IGNORED, *above)
    if read.get("limits", "sweep_timeout") is not None:
        read.warn("limits", "sweep_timeout", why=f"timeout has no effect on a batch machine: {_WHOLE}")
    search.put("matrix", matrix, read.place("search_space"))
    if matrix:
        read.put("hptuning", search, "search_space")


def _put_algorithm(read: Reading, search: Map) -> None:
    """Put the sampling algorithm with the number of its trials."""
    path, name = _algorithm(read)
    if isinstance(read.peek(path[0]), Map):
        _put_settings(read, search, str(path[0]))
    if name not in _ALGORITHMS:
        why = f"{name!r} is no sampling algorithm" if name else "the sampling algorithm is missing"
        read.refuse(*path, why=why, hint="write `sampling_algorithm: random`, `bayesian` or `grid`")
    section = Map(place=read.place(*path))
    given = _put_number(read, section, "n_experiments", "max_total_trials", "max_total_runs")
    if not given and name != "grid":
        why = f"there are {_DEFAULT_TRIALS} trials, Azure's default, unless all choices are fewer"
        read.warn(*path, why=why, hint="write `limits: {max_total_trials: N}`")
        section.put("n_experiments", _DEFAULT_TRIALS, read.place(*path))
    total = section.get("n_experiments")
    if name == "bayesian" and isinstance(total, int):
        read.warn(
            *path, why=put_bayes(search, total, min(_INITIAL, (total + 1) // 2), "Azure's own algorithm")
        )
    else:
        search.put(_ALGORITHMS.get(name, "random_search"), section, read.place(*path))


def _algorithm(read: Reading) -> tuple[Path, str]:
    """Return the key of the sampling algorithm, and its name."""
    key = "algorithm" if "algorithm" in read.data else "sampling_algorithm"
    path: Path = (key, "type") if isinstance(read.peek(key), Mapping) else (key,)
    return path, (read.text(*path) or "").lower()


def _put_objective(read: Reading, search: Map) -> None:
    """Put the metric by which trials are compared; a component may have a default among others."""
    key: Path = ("objective", "primary_metric")
    if isinstance(read.peek(*key), Mapping):
        read.get(*key)
        key = (*key, "default")
    metric, goal = read.text(*key), (read.text("objective", "goal") or "").lower()
    if metric is None and not read.keys("objective") and _algorithm(read)[1] != "bayesian":
        return
    if metric is None or goal not in ("maximize", "minimize"):
        read.refuse("objective", why="which trial is best is not said",
                    hint="write `primary_metric: NAME`, and `goal: minimize` or `maximize`")  # fmt: skip
        return
    found = placed({"name": metric, "optimization": goal}, read.place(*key))
    search.put("metric", found, read.place(*key))


def _put_settings(read: Reading, search: Map, key: str) -> None:
    """Put the seed; a rule only says how random numbers are drawn."""
    if read.get(key, "seed") is not None:
        search.copy_from(read.peek(key), "seed")
    rule = (read.text(key, "rule") or "random").lower()
    if rule != "random":
        read.warn(key, "rule", why=f"trials are drawn independently, and not by the rule {rule!r}")
    base = read.text(key, "logbase") or "e"
    if base != "e":
        why, hint = f"logarithms have the base e here, not {base}", f"multiply their numbers by ln({base})"
        read.refuse(key, "logbase", why=why, hint=f"{hint}, and remove it")


def _put_number(read: Reading, to: Map, name: str, *keys: str) -> bool:
    """Put the first of these limits that is there; return whether there is one."""
    for above in _LIMITS:
        for key in keys:
            if read.peek(*above, key) is not None:
                read.get(*above, key)
                to.copy_from(read.peek(*above), key, name)
                return True
    return False


def _space(read: Reading, path: Path) -> Map:
    """Return the values of one input, under the native key of their distribution."""
    space, section = Map(place=read.place(*path)), read.peek(*path)
    key = "spec" if "spec" in read.keys(*path) else "type"
    kind = (read.text(*path, key) or "").lower() if isinstance(section, Map) else ""
    if not isinstance(section, Map) or kind not in _SPACES:
        hint = did_you_mean(kind, _SPACES) if kind else "write `type: choice`, and `values`"
        read.refuse(*path, why=f"{kind!r} is no distribution" if kind else "its type is missing", hint=hint)
        return space
    if kind not in ("choice", "randint") and _algorithm(read)[1] == "grid":
        hint = "write `type: choice`, or `sampling_algorithm: random`"
        read.refuse(*path, why=f"a grid has listed values, and {kind} is a distribution", hint=hint)
    numbers = Map(place=read.place(*path))
    for ours, theirs in {**_SPACES[kind], **({"values": "values"} if kind == "choice" else {})}.items():
        if read.get(*path, theirs) is None:
            read.refuse(*path, why=f"{theirs!r} is missing", hint=f"write it beside `{key}: {kind}`")
            return space
        numbers.copy_from(section, theirs, ours)
    if kind == "choice":
        _refuse_nested(read, path)
        space.copy_from(numbers, "values")
    elif kind == "randint":
        ends = placed({"start": 0, "stop": numbers["stop"], "step": 1}, read.place(*path, "upper"))
        space.put("range", ends, read.place(*path, "upper"))
    else:
        space.put(kind, numbers, read.place(*path))
        if "q" in numbers:
            space.put("rounding", "nearest", read.place(*path, "q"))
    return space


def _refuse_nested(read: Reading, path: Path) -> None:
    """Refuse search spaces within a choice, which are no values of a program."""
    for at, value in read.items(*path, "values"):
        if isinstance(value, Map):
            why = "a choice between search spaces is no list of values"
            read.refuse(*path, "values", at, why=why, hint="submit a sweep for each, or write texts")

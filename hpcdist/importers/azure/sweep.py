"""Sweeps of Azure ML: their search space and limits; the trial is the job.

Sources: https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-sweep (CLI v2), and the
previews of 2021, which have ``algorithm``, ``spec`` and ``max_total_runs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path, did_you_mean
from hpcdist.importers.azure.command import Param
from hpcdist.importers.reading import Reading, placed
from hpcdist.importers.searches import Search

_BOUNDS: Final = {"low": "min_value", "high": "max_value"}
_MOMENTS: Final = {"loc": "mu", "scale": "sigma"}
_SPACES: Final[Mapping[str, Mapping[str, str]]] = {
    "choice": {"values": "values"},
    "randint": {"stop": "upper"},
    **dict.fromkeys(("uniform", "loguniform"), _BOUNDS),
    **{kind: {**_BOUNDS, "q": "q"} for kind in ("quniform", "qloguniform")},
    **dict.fromkeys(("normal", "lognormal"), _MOMENTS),
    **{kind: {**_MOMENTS, "q": "q"} for kind in ("qnormal", "qlognormal")},
}
"""The distributions, and the keys of their numbers by the native ones."""
_ALGORITHMS: Final = {"random": "random_search", "grid": "grid_search", "bayesian": "random_search"}
_LIMITS: Final[tuple[Path, ...]] = (("limits",), ())
_CONCURRENT: Final = {"max_concurrent_runs": "concurrency", "max_concurrent_trials": "concurrency"}
_TOTAL: Final = {"max_total_runs": "n_experiments", "max_total_trials": "n_experiments"}
_DEFAULT_TRIALS: Final = 1000
_INITIAL: Final = 10
"""How many trials of Optuna's TPE are random by default; of Azure's own algorithm nothing is documented."""
_WHOLE: Final = "it limits the whole sweep; a trial has `limits: {trial_timeout: SECONDS}`"
_IGNORED: Final = dict.fromkeys(("timeout_minutes", "max_duration_minutes"), _WHOLE)


def put_search(read: Reading, searched: Mapping[str, Param]) -> None:
    """Put the search of a sweep; ``searched`` are the params of its search space."""
    if "search_space" not in read.data:
        return
    search = Search(read, "search_space")
    if not read.section("search_space"):
        read.refuse("search_space", why="a sweep needs the values of its inputs", hint="write `search_space`")
    for name, param in searched.items():
        search.add(param.name, _space(read, ("search_space", name)), "search_space", name)
    _put_objective(read, search)
    _put_early_termination(read, search)
    _put_algorithm(read, search)
    for above in reversed(_LIMITS):
        search.copy(_CONCURRENT, *above)
        read.ignore_all(_IGNORED, *above)
    if read.get("limits", "sweep_timeout") is not None:
        read.warn("limits", "sweep_timeout", why=f"timeout has no effect on a batch machine: {_WHOLE}")
    search.write()


def _put_algorithm(read: Reading, search: Search) -> None:
    """Put the sampling algorithm with the number of its trials."""
    path, name = _algorithm(read)
    if isinstance(read.peek(path[0]), Map):
        _put_settings(read, search, str(path[0]))
    if name not in _ALGORITHMS:
        why = f"{name!r} is no sampling algorithm" if name else "the sampling algorithm is missing"
        read.refuse(*path, why=why, hint="write `sampling_algorithm: random`, `bayesian` or `grid`")
    section = Map(place=read.place(*path))
    for above in reversed(_LIMITS):
        search.copy(_TOTAL, *above, to=section)
    if not section and name != "grid":
        why = f"there are {_DEFAULT_TRIALS} trials, Azure's default, unless all choices are fewer"
        read.warn(*path, why=why, hint="write `limits: {max_total_trials: N}`")
        section.put("n_experiments", _DEFAULT_TRIALS, read.place(*path))
    total = section.get("n_experiments")
    if name == "bayesian" and isinstance(total, int):
        search.bayes(total, min(_INITIAL, (total + 1) // 2), "Azure's own algorithm", *path)
    else:
        search.put(_ALGORITHMS.get(name, "random_search"), section, *path)


def _algorithm(read: Reading) -> tuple[Path, str]:
    """Return the key of the sampling algorithm, and its name."""
    key = "algorithm" if "algorithm" in read.data else "sampling_algorithm"
    path: Path = (key, "type") if isinstance(read.peek(key), Mapping) else (key,)
    return path, (read.text(*path) or "").lower()


def _put_objective(read: Reading, search: Search) -> None:
    """Put the metric by which trials are compared; a component may have a default among others."""
    key: Path = ("objective", "primary_metric")
    if isinstance(read.peek(*key), Mapping):
        read.get(*key)
        key = (*key, "default")
    metric, goal = read.text(*key), (read.text("objective", "goal") or "").lower()
    if metric is None and not read.keys("objective") and _algorithm(read)[1] != "bayesian":
        return
    search.compare_by(metric, goal, *key)
    if "metric" not in search.section:
        read.refuse("objective", why="which trial is best is not said",
                    hint="write `primary_metric: NAME`, and `goal: minimize` or `maximize`")  # fmt: skip


def _put_settings(read: Reading, search: Search, key: str) -> None:
    """Put the seed; a rule only says how random numbers are drawn."""
    search.copy({"seed": "seed"}, key)
    rule = (read.text(key, "rule") or "random").lower()
    if rule != "random":
        read.warn(key, "rule", why=f"trials are drawn independently, and not by the rule {rule!r}")
    base = read.text(key, "logbase") or "e"
    if base != "e":
        why, hint = f"logarithms have the base e here, not {base}", f"multiply their numbers by ln({base})"
        read.refuse(key, "logbase", why=why, hint=f"{hint}, and remove it")


def _space(read: Reading, path: Path) -> Map | None:
    """Return the values of one input, under the native key of their distribution; None, with an error."""
    space, section = Map(place=read.place(*path)), read.peek(*path)
    key = "spec" if "spec" in read.keys(*path) else "type"
    kind = (read.text(*path, key) or "").lower() if isinstance(section, Map) else ""
    if not isinstance(section, Map) or kind not in _SPACES:
        hint = did_you_mean(kind, _SPACES) if kind else "write `type: choice`, and `values`"
        read.refuse(*path, why=f"{kind!r} is no distribution" if kind else "its type is missing", hint=hint)
        return None
    if kind not in ("choice", "randint") and _algorithm(read)[1] == "grid":
        hint = "write `type: choice`, or `sampling_algorithm: random`"
        read.refuse(*path, why=f"a grid has listed values, and {kind} is a distribution", hint=hint)
    numbers = Map(place=read.place(*path))
    for ours, theirs in _SPACES[kind].items():
        if read.get(*path, theirs) is None:
            read.refuse(*path, why=f"{theirs!r} is missing", hint=f"write it beside `{key}: {kind}`")
            return None
        numbers.copy_from(section, theirs, ours)
    if kind == "choice":
        for at, value in read.items(*path, "values"):
            if isinstance(value, Map):
                why = "a choice between search spaces is no list of values"
                read.refuse(*path, "values", at, why=why, hint="submit a sweep for each, or write texts")
        space.copy_from(numbers, "values")
    elif kind == "randint":
        ends = {"start": 0, "stop": numbers["stop"], "step": 1}
        space.put("range", placed(ends, read.place(*path, "upper")), read.place(*path, "upper"))
    else:
        space.put(kind, numbers, read.place(*path))
        if "q" in numbers:
            space.put("rounding", "nearest", read.place(*path, "q"))
    return space


# --- Policies by which running trials end early

_POLICIES: Final = {
    **dict.fromkeys(("median_stopping", "median"), "average"),
    **dict.fromkeys(("truncation_selection", "truncation"), "truncation"),
    "bandit": "difference",
}
"""Native policies; in early files of the second version they had shorter names."""


def _put_early_termination(read: Reading, search: Search) -> None:
    """Put the policy, by the metric of the search."""
    key = "early_termination"
    if not isinstance(read.peek(key), Map):
        return
    kind = str(read.get(key, "type") or read.get(key, "spec")).lower()
    numbers = {name: _number(read, (key, name)) for name in read.keys(key) if name not in ("type", "spec")}
    policy: dict[str, Any] = {"kind": _POLICIES.get(kind, ""), "min_samples": 1}
    policy["evaluation_interval"] = int(numbers.pop("evaluation_interval", 0)) or 1
    policy["min_interval"] = int(numbers.pop("delay_evaluation", 0))
    percent = numbers.pop("truncation_percentage", 0) or 100 * numbers.pop("slack_factor", 0)
    given = {"percent": percent, "amount": numbers.pop("slack_amount", 0)}
    for name in numbers:
        read.warn(key, name, why=f"{name} has no effect: all trials that got as far are compared")
    if not policy["kind"]:
        names = "`bandit`, `median_stopping` and `truncation_selection`"
        read.refuse(key, why=f"{kind!r} is no policy", hint=f"write one of {names}")
    elif "metric" not in search.section:
        read.warn(key, why="it ends no trial without an `objective`")
    elif policy["kind"] != "average" and not any(given.values()):
        hint = "write `slack_factor` or `truncation_percentage`"
        read.warn(key, why=f"{kind!r} ends no trial without a number", hint=hint)
    else:
        search.end_trials(policy | {name: number for name, number in given.items() if number}, key)


def _number(read: Reading, path: Path) -> float:
    """Return a number; 0, with an error, where it is none."""
    value = read.get(*path)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 31:
        return value
    if value not in (None, False, True):
        read.refuse(*path, why=f"{value!r} is no number of a policy", hint="write a number from 0 on")
    return 0

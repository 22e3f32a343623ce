"""The algorithm of a Katib experiment, with the number of its trials.

Source: kubeflow/katib, ``pkg/suggestion/v1beta1``: ``hyperopt``, ``optuna``, ``skopt`` and ``hyperband``, and
``manifests/v1beta1/installs/katib-standalone/katib-config.yaml``, which has the one of each algorithm.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hpcdist.documents import tree
from hpcdist.errors import Path
from hpcdist.experiment.search.adaptive import brackets, is_possible
from hpcdist.importers.reading import Reading, placed
from hpcdist.importers.searches import Search

_AT_ONCE: Final = 3  # Katib's default
_ETA: Final = 3.0  # Katib's default
_NAME: Final[Path] = ("spec", "algorithm", "algorithmName")
_SETTINGS: Final[Path] = ("spec", "algorithm", "algorithmSettings")
_STATIC: Final = {"random": "random_search", "sobol": "random_search", "grid": "grid_search"}
_OTHERS: Final = ("cmaes", "pbt", "enas", "darts")
_HINT: Final = "write `algorithmName: tpe`, `hyperband`, `random` or `grid`"
_NUMBER: Final = "write a number"


class _Bayes(NamedTuple):
    """How many trials are random at first, by a setting; by default 0: as many as run at once."""

    settings: tuple[str, ...] = ()
    initial: int = 0
    other: str = ""


_SKOPT: Final = _Bayes(("n_initial_points",), 10, "scikit-optimize")
_BAYES: Final = {
    "tpe": _Bayes(other="Hyperopt's"),
    "multivariate-tpe": _Bayes(("n_startup_trials", "startup_trials"), 10),
    "bayesianoptimization": _SKOPT,
    "skopt-bayesian-optimization": _SKOPT,
}


def name_of(read: Reading) -> str:
    """Return the algorithm; random, with an error, where hpcdist has none like it."""
    name = read.word(*_NAME) or ""
    if name in (*_STATIC, *_BAYES, "hyperband"):
        if name == "sobol":
            read.warn(*_NAME, why="trials are drawn independently, and not by a sequence of Sobol")
        return name
    why = f"{name!r} is no algorithm" if name else "the algorithm is missing"
    why = f"hpcdist has no algorithm like {name}" if name in _OTHERS else why
    read.refuse(*_NAME, why=why, hint=_HINT)
    read.get("spec", "algorithm")
    return "random"


def resource_of(read: Reading) -> str | None:
    """Return the parameter that is hyperband's resource, whose values hyperband chooses."""
    if read.peek(*_NAME) != "hyperband":
        return None
    named = (at for at, _ in read.items(*_SETTINGS) if read.peek(*_SETTINGS, at, "name") == "resource_name")
    return next((read.word(*_SETTINGS, at, "value") for at in named), None)


def put_algorithm(read: Reading, search: Search, algorithm: str, names: dict[str, str]) -> None:
    """Put the algorithm, how many trials there are, how many at once, and the seed."""
    given = _count(read, ("spec", "parallelTrialCount"))
    at_once = _AT_ONCE if given is None else given
    search.put("concurrency", at_once, "spec")
    failures = _count(read, ("spec", "maxFailedTrialCount"))
    if failures is not None:
        search.put("max_failures", max(1, failures), "spec", "maxFailedTrialCount")
    settings = _settings(read)
    if (seed := settings.get("random_state")) and seed.text.isdecimal():
        search.put("seed", int(seed.text), *seed.path)
        settings.pop("random_state")
    total = _count(read, ("spec", "maxTrialCount"))
    if algorithm == "hyperband":
        _put_hyperband(read, search, settings, names, total)
    elif algorithm in _BAYES:
        _put_bayes(read, search, settings, algorithm, (total, at_once))
    else:
        _put_static(read, search, algorithm, total)
    if read.peek(*_NAME) not in (*_STATIC, *_BAYES, "hyperband"):
        return
    for name, setting in settings.items():
        what = "Optuna's TPE" if algorithm in _BAYES else f"a {algorithm} search"
        read.warn(*setting.path[:-1], why=f"{name} has no effect on {what}")


class _Setting(NamedTuple):
    text: str
    path: Path


def _settings(read: Reading) -> dict[str, _Setting]:
    found = {}
    if not read.peek(*_SETTINGS):
        read.get(*_SETTINGS)
    for at, _ in read.items(*_SETTINGS):
        path = (*_SETTINGS, at, "value")
        found[str(read.word(*_SETTINGS, at, "name"))] = _Setting(read.word(*path) or "", path)
    return found


def _put_static(read: Reading, search: Search, algorithm: str, total: int | None) -> None:
    if total is None and algorithm != "grid":
        why = "the number of trials is missing"
        read.refuse("spec", "maxTrialCount", why=why, hint="write `maxTrialCount`")
    search.static(_STATIC[algorithm], total, "spec", *(["maxTrialCount"] if total is not None else []))


def _put_bayes(
    read: Reading,
    search: Search,
    settings: dict[str, _Setting],
    algorithm: str,
    numbers: tuple[int | None, int],
) -> None:
    """Put Bayesian optimization; ``numbers`` are how many trials there are, and how many at once."""
    kind, (total, at_once) = _BAYES[algorithm], numbers
    initial = kind.initial or at_once
    for name in kind.settings:
        if setting := settings.pop(name, None):
            initial = _count(read, setting.path) or 1
    if total is None:
        _put_static(read, search, "random", total)
    else:
        search.bayes(total, max(1, initial), kind.other, *_NAME)


def _put_hyperband(
    read: Reading, search: Search, settings: dict[str, _Setting], names: dict[str, str], total: int | None
) -> None:
    """Put hyperband, whose settings say how many trials it has."""
    resource, most = settings.pop("resource_name", None), settings.pop("r_l", None)
    given = settings.pop("eta", None)
    amount = _count(read, most.path) if most else None
    eta = (number(read, given.path) if given else None) or _ETA
    eta = _ETA if eta < 0 else eta
    param = names.get(resource.text) if resource else None
    if resource and not param:
        hint = f"there are {', '.join(names)}"
        read.refuse(*resource.path, why=f"no parameter has the name {resource.text!r}", hint=hint)
    elif not resource or not most:
        why = "hyperband needs a resource and the most of it that a trial gets"
        read.refuse(*_SETTINGS, why=why, hint="write the settings `resource_name` and `r_l`")
    elif amount is not None:
        numbers = {"max_iterations": amount, "eta": eta, "resource": {"name": param or "", "type": "int"}}
        search.with_metric("hyperband", placed(numbers, read.place(*_SETTINGS)))
        if is_possible(amount, eta):
            _compare(read, sum(each.trials for one in brackets(amount, eta) for each in one), total)
        return
    _put_static(read, search, "random", 1)


def _compare(read: Reading, found: int, total: int | None) -> None:
    """Report how its trials differ from Katib's."""
    why = f"there are {found} trials, by the paper of hyperband"
    read.warn(*_NAME, why=f"{why}; each bracket of Katib begins with `parallelTrialCount`")
    if total is not None and total < found:
        read.warn("spec", "maxTrialCount", why=f"hyperband is not cut short: it has {found} trials")


def _count(read: Reading, path: Path) -> int | None:
    """Take a whole number."""
    value = number(read, path)
    if value is not None and value != int(value):
        read.refuse(*path, why=f"{value} is no whole number", hint=_NUMBER)
    return None if value is None else int(value)


def number(read: Reading, path: Path, *, needed: bool = False) -> float | None:
    """Take a number, which Katib has as text too."""
    text = read.word(*path)
    if text in (None, ""):
        if needed:
            read.refuse(*path[:-1], why=f"{path[-1]!r} is missing", hint=_NUMBER)
        return None
    value = tree.resolve(str(text).strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        read.refuse(*path, why=f"{text!r} is not a number", hint=_NUMBER)
        return None
    return value

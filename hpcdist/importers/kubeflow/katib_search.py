"""The parameters and the algorithm of a Katib experiment, as the section ``hptuning``.

Sources: kubeflow/katib, ``pkg/suggestion/v1beta1``: ``internal/search_space.py`` (the lists of a grid) and
``hyperopt/base_service.py`` (the distributions of a random search, whose multiples are the nearest).
"""

from __future__ import annotations

import math
import re
from typing import Final

from hpcdist.documents import scalars
from hpcdist.documents.tree import Map
from hpcdist.errors import Path, did_you_mean
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.reading import Reading, placed
from hpcdist.importers.search_params import param_name, refused_space

_ALGORITHMS: Final = {"random": "random_search", "sobol": "random_search", "grid": "grid_search"}
_ADAPTIVE: Final = ("tpe", "multivariate-tpe", "bayesianoptimization", "hyperband", "cmaes", "pbt", "enas",
                    "darts", "skopt-bayesian-optimization")  # fmt: skip
_LISTS: Final = ("categorical", "discrete")
_DISTRIBUTIONS: Final = {"": "uniform", "uniform": "uniform", "loguniform": "loguniform", "normal": "normal",
                         "lognormal": "lognormal"}  # fmt: skip
_WORD: Final = re.compile(r"[\w.+:/@%=,-]+")
"""What is the same inside and outside of quotes of a shell."""
_TRIALS_AT_ONCE: Final = 3  # Katib's default
_NUMBER: Final = "write a number"


def put_search(read: Reading) -> dict[str, str]:
    """Put the search; return the param of each parameter of the experiment."""
    search, matrix = Map(place=read.place("spec")), Map(place=read.place("spec", "parameters"))
    algorithm = _algorithm(read)
    names: dict[str, str] = {}
    for at, _ in read.items("spec", "parameters"):
        path: Path = ("spec", "parameters", at)
        name = word(read, *path, "name") or ""
        param = param_name(name.lstrip("-"))
        if param in names.values():
            read.refuse(*path, "name", why=f"another parameter is {param!r} too", hint="rename one")
        names[name] = param
        space = _space(read, path, algorithm) or refused_space(read.place(*path))
        matrix.put(param, space, read.place(*path))
    if not names and read.peek("spec", "nasConfig") is None:
        read.refuse("spec", why="the experiment has no parameters", hint="write `parameters`")
    _put_counts(read, search, algorithm)
    _put_objective(read, search)
    search.put("matrix", matrix, read.place("spec", "parameters"))
    if matrix:
        read.put("hptuning", search, "spec", "parameters")
    return names


def _algorithm(read: Reading) -> str:
    """Return the algorithm; random, with an error, where trials depend on earlier ones."""
    path = ("spec", "algorithm", "algorithmName")
    name = word(read, *path) or ""
    if name in _ALGORITHMS:
        if name == "sobol":
            read.warn(*path, why="trials are drawn independently, and not by a sequence of Sobol")
        return name
    why = f"{name!r} is no algorithm" if name else "the algorithm is missing"
    if name in _ADAPTIVE:
        why = f"{name} chooses each trial by the results of others, which is not done yet"
    read.refuse(*path, why=why, hint="write `algorithmName: random`, or `grid`")
    read.get("spec", "algorithm")
    return "random"


def _put_counts(read: Reading, search: Map, algorithm: str) -> None:
    """Put how many trials there are, how many at once, and the seed."""
    at_once = _number(read, ("spec", "parallelTrialCount"))
    search.put("concurrency", _TRIALS_AT_ONCE if at_once is None else at_once, read.place("spec"))
    section, path = Map(place=read.place("spec")), ("spec", "maxTrialCount")
    number = _number(read, path)
    if number is not None:
        section.put("n_experiments", number, read.place(*path))
    elif algorithm != "grid":
        read.refuse(*path, why="the number of trials is missing", hint="write `maxTrialCount`")
        section.put("n_experiments", 1, read.place(*path))
    search.put(_ALGORITHMS[algorithm], section, read.place("spec", "algorithm"))
    above = ("spec", "algorithm", "algorithmSettings")
    for at, _ in read.items(*above):
        name, value = word(read, *above, at, "name"), word(read, *above, at, "value") or ""
        if name == "random_state" and value.isdecimal():
            search.put("seed", int(value), read.place(*above, at, "value"))
        elif read.peek("spec", "algorithm", "algorithmName") in _ALGORITHMS:
            read.warn(*above, at, why=f"{name} has no effect on a {algorithm} search")


def _put_objective(read: Reading, search: Map) -> None:
    """Put the metric by which trials are compared, and the goal at which the search stops."""
    above = ("spec", "objective")
    kind, metric = word(read, *above, "type"), word(read, *above, "objectiveMetricName")
    goal = _number(read, (*above, "goal"))
    if not metric or kind not in ("maximize", "minimize"):
        hint = "write `objectiveMetricName`, and `type: minimize` or `maximize`"
        read.refuse(*above, why="which trial is best is not said", hint=hint)
        return
    found = placed({"name": metric, "optimization": kind}, read.place(*above, "objectiveMetricName"))
    search.put("metric", found, read.place(*above, "objectiveMetricName"))
    if goal is not None:
        stop = placed([{"metric": metric, "value": goal, "optimization": kind}], read.place(*above, "goal"))
        search.put("early_stopping", stop, read.place(*above, "goal"))


def _space(read: Reading, path: Path, algorithm: str) -> Map | None:
    """Return the values of one parameter."""
    where = (*path, "feasibleSpace")
    kind, space = word(read, *path, "parameterType") or "", Map(place=read.place(*where))
    if kind in _LISTS:
        values = read.get(*where, "list")
        if not isinstance(values, list):
            read.refuse(*where, why="the values are missing", hint="write `list: [...]`")
            return None
        for at, value in enumerate(values):
            if not _WORD.fullmatch(str(value)):
                why = f"{value!r} would not be one word in each place of a command"
                read.refuse(*where, "list", at, why=why, hint="use letters, digits and . _ - + : / = , @ %")
        space.copy_from(read.peek(*where), "list", "values")
        return space
    if kind not in ("int", "double"):
        known = (*_LISTS, "int", "double")
        read.refuse(*path, "parameterType", why=f"unknown type {kind!r}", hint=did_you_mean(kind, known))
        return None
    numbers = {key: _number(read, (*where, key), needed=key != "step") for key in ("min", "max", "step")}
    if numbers["min"] is None or numbers["max"] is None:
        return None
    step = 1 if kind == "int" and numbers["step"] is None else numbers["step"]
    return _range(read, path, algorithm, (numbers["min"], numbers["max"], step))


def _range(
    read: Reading, path: Path, algorithm: str, numbers: tuple[float, float, float | None]
) -> Map | None:
    """Return the values between two numbers, for a grid those in steps."""
    (low, high, step), place = numbers, read.place(*path)
    where = (*path, "feasibleSpace")
    given = word(read, *where, "distribution") or ""
    kind = _DISTRIBUTIONS.get(given.lower(), "")
    space = Map(place=place)
    if not math.isfinite((high - low) / (step or 1)) or low > high or (step is not None and step <= 0):
        why = f"there is no number from {low} to {high} in steps of {step}"
        read.refuse(*where, why=why, hint="write a `min` below `max`, and a `step` above 0")
    elif not kind:
        read.refuse(*where, "distribution", why=f"unknown distribution {given!r}",
                    hint=did_you_mean(given.lower(), _DISTRIBUTIONS))  # fmt: skip
    elif algorithm == "grid" and step is None:
        read.refuse(*where, why="a grid needs the step between the values", hint="write `step`")
    elif kind.startswith("log") and low <= 0:
        read.refuse(*where, "min", why=f"{low} has no logarithm", hint="write a number above 0")
    elif algorithm == "grid" and step is not None:
        space.put("range", placed(_steps(low, high, step), place), place)
    else:
        amounts = _amounts(kind, low, high) | ({"q": step} if step else {})
        space.put("q" * bool(step) + kind, placed(amounts, place), place)
        if step:
            space.put("rounding", "nearest", place)
    return space or None


def _steps(low: float, high: float, step: float) -> dict[str, float]:
    """Return the range with the values of ``arange(low, high + step, step)`` that are not above ``high``."""
    count = math.ceil((high + step - low) / step)
    if low + (count - 1) * ((low + step) - low) > high:
        count -= 1
    return {"start": low, "stop": low + (count - 0.5) * step, "step": step}


def _amounts(kind: str, low: float, high: float) -> dict[str, float]:
    """Return the numbers of a distribution, which for a normal one is six standard deviations wide."""
    if kind.startswith("log"):
        low, high = math.log(low), math.log(high)
    if kind.endswith("normal"):
        return {"loc": (low + high) / 2, "scale": (high - low) / 6}
    return {"low": low, "high": high}


def _number(read: Reading, path: Path, *, needed: bool = False) -> float | None:
    """Take a number, which Katib has as text too."""
    text = word(read, *path)
    if text in (None, ""):
        if needed:
            read.refuse(*path[:-1], why=f"{path[-1]!r} is missing", hint=_NUMBER)
        return None
    value = scalars.resolve(str(text).strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        read.refuse(*path, why=f"{text!r} is not a number", hint=_NUMBER)
        return None
    return value

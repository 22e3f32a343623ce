"""The parameters and the objective of a Katib experiment, as the section ``hptuning``.

Sources: kubeflow/katib, ``pkg/suggestion/v1beta1``: ``internal/search_space.py`` (the lists of a grid) and
``hyperopt/base_service.py`` (the distributions of a random search, whose multiples are the nearest).
"""

from __future__ import annotations

import math
import re
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path, did_you_mean
from hpcdist.importers.kubeflow import katib_algorithm
from hpcdist.importers.kubeflow.katib_algorithm import number
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.reading import Reading, placed
from hpcdist.importers.search_params import param_name, refused_space
from hpcdist.importers.search_policies import put_medianstop, put_stop

_LISTS: Final = ("categorical", "discrete")
_DISTRIBUTIONS: Final = {"": "uniform", "uniform": "uniform", "loguniform": "loguniform", "normal": "normal",
                         "lognormal": "lognormal"}  # fmt: skip
_WORD: Final = re.compile(r"[\w.+:/@%=,-]+")
"""What is the same inside and outside of quotes of a shell."""


def put_search(read: Reading) -> dict[str, str]:
    """Put the search; return the param of each parameter of the experiment."""
    search, matrix = Map(place=read.place("spec")), Map(place=read.place("spec", "parameters"))
    algorithm, resource = katib_algorithm.name_of(read), katib_algorithm.resource_of(read)
    names: dict[str, str] = {}
    for at, _ in read.items("spec", "parameters"):
        path: Path = ("spec", "parameters", at)
        name = word(read, *path, "name") or ""
        param = param_name(name.lstrip("-"))
        if param in names.values():
            read.refuse(*path, "name", why=f"another parameter is {param!r} too", hint="rename one")
        names[name] = param
        if name == resource:
            read.get(*path)
            continue
        space = _space(read, path, algorithm) or refused_space(read.place(*path))
        matrix.put(param, space, read.place(*path))
    if not matrix and read.peek("spec", "nasConfig") is None:
        read.refuse("spec", why="the experiment has no parameters", hint="write `parameters`")
    _put_objective(read, search)
    katib_algorithm.put_algorithm(read, search, algorithm, names)
    search.put("matrix", matrix, read.place("spec", "parameters"))
    if matrix:
        read.put("hptuning", search, "spec", "parameters")
    return names


def _put_objective(read: Reading, search: Map) -> None:
    """Put the metric by which trials are compared, and the goal at which the search stops."""
    above = ("spec", "objective")
    kind, metric = word(read, *above, "type"), word(read, *above, "objectiveMetricName")
    goal = number(read, (*above, "goal"))
    if not metric or kind not in ("maximize", "minimize"):
        hint = "write `objectiveMetricName`, and `type: minimize` or `maximize`"
        read.refuse(*above, why="which trial is best is not said", hint=hint)
        return
    found = placed({"name": metric, "optimization": kind}, read.place(*above, "objectiveMetricName"))
    search.put("metric", found, read.place(*above, "objectiveMetricName"))
    if goal is not None:
        put_stop(read, search, {"metric": metric, "value": goal, "optimization": kind}, *above, "goal")
    put_medianstop(read, search)


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
    numbers = {key: number(read, (*where, key), needed=key != "step") for key in ("min", "max", "step")}
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

"""Searches in foreign files: the params that are varied, and the policies that end a trial."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path, Place
from hpcdist.importers.reading import Reading, placed

# --- What searches of all forms have: names of params that templates can have, and Bayesian optimization

_OF_TEMPLATES: Final = frozenset({"true", "false", "none", "range", "loop", "self"})


def param_name(name: str) -> str:
    """Return the name that templates can have for a param: ``learning_rate`` for ``learning-rate``."""
    param = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not param.isidentifier() or param.lower() in _OF_TEMPLATES or keyword.iskeyword(param):
        param = f"_{param}" if param[:1].isdigit() else f"{param}_"
    return param


def refused_space(place: Place | None) -> Map:
    """Return values for a param whose own are refused, so that nothing else is."""
    space = Map(place=place)
    space.put("values", placed([1], place), place)
    return space


def put_bayes(search: Map, total: int, initial: int, other: str) -> str:
    """Put Bayesian optimization by the metric of the search; a random search if all its trials are random.

    ``initial``: how many trials are random at first. ``other``: whose algorithm is another one.

    Returns:
        What is not as in the file, "" if nothing.
    """
    section, place = Map(place=search.place), search.place
    if total <= initial:
        section.put("n_experiments", total, place)
        search.put("random_search", section, place)
        return f"all {total} trials are random ones, since the first {initial} of such a search are"
    section.put("n_initial_trials", initial, place)
    section.put("n_iterations", total - initial, place)
    if "metric" in search:
        section.copy_from(search, "metric")
        search.drop("metric")
    search.put("bo", section, place)
    return (
        f"Optuna's TPE chooses the trials, and not {other}; the first {initial} are random ones"
        if other
        else ""
    )


# --- Policies by which running trials of a search end early: those of other forms as ours

_AZURE: Final = {
    "bandit": "difference",
    "median_stopping": "average",
    "truncation_selection": "truncation",
    "median": "average",
    "truncation": "truncation",
}
"""The policies of Azure ML; in early files of its second version they had shorter names."""

_POLYAXON: Final = {"median": "median", "truncation": "truncation", "diff": "difference"}
_KEYS: Final = {
    "evaluationInterval": "evaluation_interval",
    "minInterval": "min_interval",
    "minSamples": "min_samples",
    "percent": "percent",
}


def put_stop(read: Reading, search: Map, stop: Mapping[str, Any], *path: str | int) -> None:
    """Add an entry to ``early_stopping``."""
    place = read.place(*path)
    found = search.get("early_stopping")
    stops = found if isinstance(found, Seq) else Seq(place=place)
    stops.add(placed(stop, place), place)
    search.put("early_stopping", stops, place)


def put_early_termination(read: Reading, search: Map) -> None:
    """Put that of Azure ML, by the metric of the search; its second version needs no other trials."""
    key = "early_termination"
    if not isinstance(read.peek(key), Map):
        return
    kind = str(read.get(key, "type") or read.get(key, "spec")).lower()
    policy = {"kind": _AZURE.get(kind, ""), "min_samples": 1}
    numbers = {name: _number(read, (key, name)) for name in read.keys(key) if name not in ("type", "spec")}
    policy["evaluation_interval"] = int(numbers.pop("evaluation_interval", 0)) or 1
    policy["min_interval"] = int(numbers.pop("delay_evaluation", 0))
    given = {
        "percent": numbers.pop("truncation_percentage", 0) or 100 * numbers.pop("slack_factor", 0),
        "amount": numbers.pop("slack_amount", 0),
    }
    policy |= {name: number for name, number in given.items() if number}
    metric = search.get("metric")
    for name in numbers:
        read.warn(key, name, why=f"{name} has no effect: all trials that got as far are compared")
    if not policy["kind"]:
        names = "`bandit`, `median_stopping` and `truncation_selection`"
        read.refuse(key, why=f"{kind!r} is no policy", hint=f"write one of {names}")
    elif not isinstance(metric, Map):
        read.warn(key, why="it ends no trial without an `objective`")
    elif policy["kind"] != "average" and not any(given.values()):
        hint = "write `slack_factor` or `truncation_percentage`"
        read.warn(key, why=f"{kind!r} ends no trial without a number", hint=hint)
    else:
        stop = {"metric": metric["name"], "optimization": metric["optimization"], "policy": policy}
        put_stop(read, search, stop, key)


def put_medianstop(read: Reading, search: Map) -> None:
    """Put that of Katib, which compares with the means of the others, by default from the fourth value on."""
    above: Path = ("spec", "earlyStopping")
    if not isinstance(read.peek(*above), Map):
        return
    name, metric = read.get(*above, "algorithmName"), search.get("metric")
    policy = {"kind": "average", "min_interval": 4, "min_samples": 3}
    settings = {"start_step": "min_interval", "min_trials_required": "min_samples"}
    for at, _ in read.items(*above, "algorithmSettings"):
        where = (*above, "algorithmSettings", at)
        setting, value = str(read.get(*where, "name")), str(read.get(*where, "value"))
        if setting not in settings or not value.isdecimal():
            hint = "write `start_step` or `min_trials_required` with a number"
            read.refuse(*where, why=f"{setting!r} cannot be {value!r}", hint=hint)
        else:
            policy[settings[setting]] = int(value)
    if name != "medianstop":
        read.refuse(*above, why=f"{name!r} is no algorithm of early stopping", hint="write `medianstop`")
    elif isinstance(metric, Map):
        stop = {"metric": metric["name"], "optimization": metric["optimization"], "policy": policy}
        put_stop(read, search, stop, *above)


def of_polyaxon(read: Reading, path: Path) -> Map | None:
    """Return that of Polyaxon 1 and 2; None where it is none."""
    kind, policy = str(read.get(*path, "kind")), Map(place=read.place(*path))
    if kind not in _POLYAXON:
        read.refuse(*path, why=f"{kind!r} is no policy", hint="write `kind: median`, `truncation` or `diff`")
        read.get(*path)
        return None
    policy.put("kind", _POLYAXON[kind], read.place(*path, "kind"))
    if read.get(*path, "includeSucceeded") is False:
        why = "includeSucceeded has no effect: all trials that got as far are compared"
        read.warn(*path, "includeSucceeded", why=why)
    for key, name in _KEYS.items():
        if read.get(*path, key) is not None:
            policy.copy_from(read.peek(*path), key, name)
    return policy


def _number(read: Reading, path: Path) -> float:
    """Return a number; 0, with an error, where it is none."""
    value = read.get(*path)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 31:
        return value
    if value not in (None, False, True):
        read.refuse(*path, why=f"{value!r} is no number of a policy", hint="write a number from 0 on")
    return 0

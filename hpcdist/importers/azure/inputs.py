"""Inputs and outputs of Azure ML: inputs that a component declares, and inputs of a job."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.base import tree
from hpcdist.base.errors import Path, did_you_mean
from hpcdist.base.tree import Map, Seq
from hpcdist.importers.azure.command import FILES, HIDDEN, TYPES, Param
from hpcdist.importers.job import ForeignSearch, param_name
from hpcdist.importers.reading import Reading, placed

_PATHS: Final = FILES | {
    "uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model", "path", "azuremldataset",
    "anydirectory", "dataframedirectory", "modeldirectory", "imagedirectory", "untrainedmodeldirectory",
    "transformationdirectory",
}  # fmt: skip
_WORDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|/subscriptions/")
_SOURCES: Final = ("path", "folder", "file", "dataset", "local_path", "data", "datastore")
_NO_MOUNT: Final = "nothing is mounted or copied; paths are used as they are"
_INPUT_IGNORED: Final = {
    "mode": _NO_MOUNT,
    "datastore_mode": _NO_MOUNT,
    "datastore": _NO_MOUNT,
    "is_resource": "it describes forms of Azure's designer",
    "group_names": "it describes forms of Azure's designer",
    "annotations": "it describes forms of Azure's designer",
    "intellectual_property": HIDDEN,
}


class Inputs:
    """The inputs of a file; ``params`` are their params in templates, by their name in the file.

    ``searched``: the params of a sweep's search space, which its trial may declare as inputs.
    """

    def __init__(self, read: Reading, *, legacy: bool) -> None:
        self._read, self._legacy = read, legacy
        self.params: dict[str, Param] = {}
        self.searched: dict[str, Param] = {}
        self._declared = Seq(place=read.place("inputs"))
        self._values = Map(place=read.place("inputs"))
        if read.section("inputs"):
            for name in read.keys("inputs"):
                self._input(name)
        for name in read.keys("search_space"):
            self._searched(name)
        self._put()

    def _searched(self, name: str) -> None:
        """Take an input of the search space, which the trial may declare; a value of it has no place."""
        read = self._read
        if name not in self.params:
            if param := self._name(name, "search_space"):
                self._add(name, Param(param), {}, None)
        elif not isinstance(read.peek("inputs", name), Mapping):
            why = "an input has this name too, and one value"
            read.refuse("search_space", name, why=why, hint="rename one, or remove the input")
        if name in self.params:
            self.searched[name] = self.params[name]

    def _put(self) -> None:
        read = self._read
        if self._declared:
            read.put("inputs", self._declared, "inputs")
        if self._values:
            read.put("params", self._values, "inputs")

    def _input(self, name: str) -> None:
        param = self._name(name)
        if param is None:
            return
        value = self._read.peek("inputs", name)
        if isinstance(value, Mapping):
            self._section(name, param)
        elif isinstance(value, list):
            self._read.refuse(
                "inputs", name, why="an input is not a list", hint="write one value, or a section"
            )
        else:
            self._literal(name, param, ("inputs", name))

    def _name(self, name: str, section: str = "inputs") -> str | None:
        """Return the name of an input in templates; None if another input has it."""
        param = param_name(name)
        if any(param == other.name for other in self.params.values()):
            self._read.refuse(section, name, why=f"another input has the name {param} too", hint="rename one")
            return None
        if param != name:
            why = f"the input {name!r} becomes the param {param!r}"
            why += f", which is given as `-p {param}=VALUE`" * (section == "inputs")
            self._read.warn(section, name, why=why)
        return param

    def _literal(self, name: str, param: str, path: Path, entry: dict[str, Any] | None = None) -> None:
        """Take a value in the file; data that is not on this machine becomes a required param."""
        value = self._read.get(*path)
        if _is_reference(value) or (
            entry is None and isinstance(value, str) and value.startswith("azureml:")
        ):
            self._remote(name, param, path, entry or {})
            return
        is_word = self._legacy and isinstance(value, str)
        self._add(name, Param(param, is_empty=value == "", is_word=is_word), entry or {}, value)

    def _remote(self, name: str, param: str, path: Path, entry: dict[str, Any]) -> None:
        """Declare a param for the path of data that Azure would fetch."""
        self._read.get(*path)
        text = self._read.text(*path)
        hint = f"give the path of a copy of it on this machine: `-p {param}=PATH`"
        why = f"{text!r} is not fetched: hpcdist does not access Azure storage"
        if _is_reference(text):
            why, hint = (
                f"{text} is of another job",
                f"run that job before, and give what it wrote: `-p {param}=PATH`",
            )
        self._read.warn(*path, why=why, hint=hint)
        self._add(name, Param(param, is_path=True), entry | {"type": "path"}, None)

    def _add(self, name: str, param: Param, entry: dict[str, Any], value: object) -> None:
        place = self._read.place("inputs", name)
        self.params[name] = param
        self._declared.add(placed({"name": param.name} | entry, place), place)
        if not entry.get("is_optional"):
            self._values.put(param.name, value, place)

    def _section(self, name: str, param: str) -> None:
        """Take an input that is a section: declared with a type, or a path."""
        read, path = self._read, ("inputs", name)
        if not read.keys(*path):
            read.get(*path)
        read.get(*path, "type")
        entry: dict[str, Any] = {}
        if text := _description(read, *path):
            entry["description"] = text
        kind = self._kind(name)
        source = next((key for key in _SOURCES if read.peek(*path, key) is not None), None)
        if kind == "path" and source:
            self._path(name, param, source, entry)
        elif read.peek(*path, "value") is not None:
            self._literal(name, param, (*path, "value"), entry | ({"type": kind} if kind in _WORDS else {}))
        else:
            self._declare(name, param, kind, entry)
        read.ignore_all(_INPUT_IGNORED, *path)

    def _kind(self, name: str) -> str:
        """Return the native type of an input, ``enum``, or nothing where the file has none."""
        read, value = self._read, self._read.peek("inputs", name, "type")
        if value is None:
            sources = any(read.peek("inputs", name, key) is not None for key in _SOURCES)
            return "path" if sources else ""
        kinds = value if isinstance(value, list) else [value]
        if len(kinds) == 1 and (kind := TYPES.get(str(kinds[0]).lower())):
            return kind
        for item in kinds:
            if not isinstance(item, str) or (not self._legacy and item.lower() not in _PATHS):
                hint = did_you_mean(str(item), {*TYPES, *_PATHS})
                read.refuse("inputs", name, "type", why=f"unknown type {item!r}", hint=hint)
        return "path"

    def _path(self, name: str, param: str, source: str, entry: dict[str, Any]) -> None:
        """Take a path, which is relative to the folder of the file."""
        read, path = self._read, ("inputs", name, source)
        for inner in ("path", "local_path", "file", "folder", "dataset"):
            if isinstance(read.peek(*path), Mapping) and read.peek(*path, inner) is not None:
                path = (*path, inner)  # type: ignore[assignment]
        value = read.peek(*path)
        if not isinstance(value, str):
            read.refuse(*path, why=f"expected a path, got {value!r}")
            self._add(name, Param(param, is_path=True), entry, None)
        elif _is_reference(value):
            self._remote(name, param, path, entry)
        elif _REMOTE.match(value) and not value.startswith("file:"):
            if str(read.peek("inputs", name, "mode")).lower() == "direct" and not value.startswith(
                "azureml:"
            ):
                read.get("inputs", name, "mode")
                self._literal(name, param, path, entry)
            else:
                self._remote(name, param, path, entry)
        else:
            read.get(*path)
            value = value.removeprefix("file:")
            value = value if "/" in value else value.replace("\\", "/")  # written on Windows
            value = posixpath.normpath(posixpath.join(read.folder(*path), value))
            self._add(name, Param(param, is_path=True), entry | {"type": "path"}, value)

    def _declare(self, name: str, param: str, kind: str, entry: dict[str, Any]) -> None:
        """Take an input that is declared: its type, its default, its choices."""
        read, path = self._read, ("inputs", name)
        optional = str(read.get(*path, "optional")).lower() == "true"
        is_text = self._legacy and kind == "str"
        kind = "str" if kind == "enum" else kind
        spelt = [read.text(*path, "enum", at) or "" for at, _ in read.items(*path, "enum")]
        options = spelt if kind == "str" else [_scalar(text) for text in spelt]
        if read.peek(*path, "enum") is not None and not options:
            read.refuse(*path, "enum", why="expected a list of choices")
        read.get(*path, "enum") if options else None
        if _is_reference(read.peek(*path, "default")):
            self._remote(name, param, (*path, "default"), entry)
            return
        default = self._default(name, kind)
        if options:
            entry["options"] = options
        if kind:
            entry["type"] = kind
        if default not in (None, ""):  # an empty text is the value of a param, but no default
            entry["default"] = default
        if default != "" and (optional or read.peek(*path, "default") is not None):
            entry["is_optional"] = True
        entry |= self._bounds(name, default)
        found = Param(param, kind == "path", optional and default is None, default == "", is_text)
        self._add(name, found, entry, default if default == "" else None)

    def _default(self, name: str, kind: str) -> object:
        """Return the default, of the declared type; text that is a number becomes that number."""
        path = ("inputs", name, "default")
        value, text = self._read.get(*path), self._read.text(*path)
        if value is None or text is None:
            return None
        if isinstance(value, (dict, list)):
            self._read.refuse(*path, why="a default is one value")
            return None
        if kind in ("str", "path"):
            return text
        meant = _scalar(text.lower() if kind == "bool" else text)
        if kind and not _fits(kind, meant):
            self._read.refuse(*path, why=f"expected {_WORDS[kind]}, got {text!r}")
            return None
        return meant if kind else value

    def _bounds(self, name: str, default: object) -> dict[str, Any]:
        """Return ``min`` and ``max`` in the native form; check the default against them."""
        found: dict[str, Any] = {}
        for key, ours in (("min", "minimum"), ("max", "maximum")):
            text = self._read.text("inputs", name, key)
            bound = None if text is None else _scalar(text)
            if bound is None:
                continue
            if isinstance(bound, bool) or not isinstance(bound, (int, float)):
                self._read.refuse("inputs", name, key, why=f"expected a number, got {text!r}")
            elif isinstance(default, (int, float)) and (default < bound if key == "min" else default > bound):
                why = f"the default {default} is beyond the {key} of {bound}"
                self._read.refuse("inputs", name, "default", why=why)
            else:
                found[ours] = bound
        return found


def _is_reference(value: object) -> bool:
    """Return whether a value refers to another job, or to a pipeline that does not set it."""
    return isinstance(value, str) and value.strip().startswith("${{")


def _scalar(text: str) -> object:
    """Return the YAML value of a word; the word itself, if it is a number with too many digits."""
    try:
        return tree.resolve(text)
    except ValueError:
        return text


def _fits(kind: str, value: object) -> bool:
    if isinstance(value, bool):
        return kind == "bool"
    return isinstance(value, int if kind == "int" else (int, float)) and kind != "bool"


def _description(read: Reading, *path: str | int) -> str:
    texts = [read.text(*path, "display_name"), read.text(*path, "description")]
    return ": ".join(text for text in texts if text)


# --- Sweeps of Azure ML: their search space and limits; the trial is the job
#
# Sources: https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-sweep (CLI v2), and the
# previews of 2021, which have ``algorithm``, ``spec`` and ``max_total_runs``.

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
"""The distributions, and the keys of their numbers by native key."""
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
    search = ForeignSearch(read, "search_space")
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


def _put_algorithm(read: Reading, search: ForeignSearch) -> None:
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


def _put_objective(read: Reading, search: ForeignSearch) -> None:
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


def _put_settings(read: Reading, search: ForeignSearch, key: str) -> None:
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
            read.refuse(*path, why=f"{theirs!r} is missing", hint=f"write it next to `{key}: {kind}`")
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


def _put_early_termination(read: Reading, search: ForeignSearch) -> None:
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
    """Return a number; 0, with an error, if it is not one."""
    value = read.get(*path)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 31:
        return value
    if value not in (None, False, True):
        read.refuse(*path, why=f"{value!r} is no number of a policy", hint="write a number from 0 on")
    return 0

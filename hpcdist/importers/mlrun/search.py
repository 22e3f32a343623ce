"""Hyper-parameters of MLRun as the section ``hptuning``: ``grid``, ``list`` and ``random``.

Source: mlrun 1.12.1, ``mlrun/runtimes/generators.py``. In its grid the first parameter changes fastest;
``random`` draws ``max_iterations`` times, so that a trial may come twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path
from hpcdist.experiment.search.trials import MOST
from hpcdist.importers.reading import Reading
from hpcdist.importers.searches import ForeignSearch

_OPTIONS: Final = "hyper_param_options"
_STRATEGIES: Final = ("grid", "list", "random")
_ITERATIONS: Final = 10  # MLRun's default
_ERRORS: Final = 3  # MLRun's default, also for 0
_IGNORED: Final = {
    **dict.fromkeys(("dask_cluster_uri", "teardown_dask"), "the batch system runs the trials"),
}
_STOP: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*([<>])=?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_SELECTOR: Final = re.compile(r"(?:(max|min)\.)?(.+)")


def put_search(read: Reading, spec: Path) -> dict[str, object]:
    """Put the search, if there is one; return its params, each with one of its values."""
    options = (*spec, _OPTIONS)
    file, lists = _lists(read, spec)
    if lists is None:
        refused = file or read.peek(*spec, "hyperparams")
        for key in (_OPTIONS, "strategy", "selector"):
            if read.get(*spec, key) and not refused:
                read.ignore(*spec, key, why="there are no `hyperparams`")
        return {}
    read.ignore_all(_IGNORED, *options)
    search = ForeignSearch(read, *lists)
    strategy = _strategy(read, spec, file)
    paths = ((*options, "selector"), (*spec, "selector"))
    text, path = next(((text, path) for path in paths if (text := read.text(*path))), ("", paths[0]))
    if match := _SELECTOR.fullmatch(text):
        search.compare_by(match[2], "minimize" if match[1] == "min" else "maximize", *path)
    _put_ends(read, search, options)
    read.get(*options, "parallel_runs")
    search.copy({"parallel_runs": "concurrency"}, *options)
    values = {name: found for name in read.keys(*lists) if (found := _values(read, (*lists, name), strategy))}
    if strategy == "grid":
        search.static("grid_search", None, *lists)
        for name, found in reversed([*values.items()]):  # in the native form the last changes fastest
            space = Map(place=read.place(*lists, name))
            space.put("values", found, read.place(*lists, name))
            search.add(name, space, *lists, name)
    elif strategy and values:
        draws = _draws(read, spec) if strategy == "random" else 0
        rows = _rows(read, values, lists, draws)
        if rows is not None:
            search.put("mapping", rows, *lists)
    search.write()
    return {name: _sample(found) for name, found in values.items()}


def file_named_in(data: Map) -> tuple[Path, str] | None:
    """Return the key and the path of the file with the parameters of a function."""
    read = Reading(data)
    for path in (("spec", "param_file"), ("spec", _OPTIONS, "param_file")):
        name = read.peek(*path)
        if isinstance(name, str) and name and "://" not in name and not read.peek("spec", "hyperparams"):
            return path, name
    return None


def _lists(read: Reading, spec: Path) -> tuple[str, Path | None]:
    """Return the name of the file with the lists, if it is one, and their path; None without any."""
    own: Path = (*spec, "hyperparams")
    for path in ((*spec, "param_file"), (*spec, _OPTIONS, "param_file")):
        node = read.peek(*path)
        if not node:
            continue
        if read.peek(*own):
            read.refuse(*path, why="there are `hyperparams` too", hint="keep one of them")
            return "", own
        if isinstance(node, Map):
            return node.place.file if node.place else "", path
        hint = "write its values as `hyperparams`, or copy it next to this file and give that name"
        read.refuse(*path, why=f"{node} is not read here", hint=hint)
        return str(node), None
    node = read.peek(*own)
    if node and not isinstance(node, Mapping):
        read.refuse(*own, why="expected keys and values", hint="write `NAME: [VALUE, ...]`")
        return "", None
    return "", own if node else None


def _strategy(read: Reading, spec: Path, file: str) -> str:
    """Return the strategy, "" with an error where there is no such one."""
    paths = ((*spec, "strategy"), (*spec, _OPTIONS, "strategy"))
    given, path = next(((text, path) for path in paths if (text := read.text(*path))), ("", paths[1]))
    read.get(*paths[1])
    table = file.endswith(".csv")
    strategy = given or ("list" if table else "grid")
    most = (*spec, _OPTIONS, "max_iterations")
    if strategy not in _STRATEGIES:
        why = f"unknown strategy {given!r}"
        if given == "custom":
            why = "with the strategy 'custom' the function makes its own runs, which a batch job does not"
        read.refuse(*path, why=why, hint="write grid, list or random")
        return ""
    if table and strategy != "list":
        why = "a table in CSV is a list of trials"
        read.refuse(*path, why=why, hint="write `strategy: list`, or the lists as JSON")
        return ""
    if strategy != "random" and read.peek(*most):
        hint = "write `strategy: random`, or remove it"
        read.refuse(*most, why="max_iterations is of the strategy random", hint=hint)
    return strategy


def _put_ends(read: Reading, search: ForeignSearch, options: Path) -> None:
    """Put after how many failures and at which result no further trial starts."""
    errors = read.get(*options, "max_errors")
    if isinstance(errors, int) and not isinstance(errors, bool) and errors >= 0:
        search.put("max_failures", (errors or _ERRORS) + 1, *options, "max_errors")
    elif errors is not None:
        read.refuse(*options, "max_errors", why=f"{errors!r} is no number of trials", hint="write a number")
    path = (*options, "stop_condition")
    if match := _STOP.fullmatch(read.text(*path) or ""):
        goal = "maximize" if match[2] == ">" else "minimize"
        search.stop({"metric": match[1], "value": float(match[3]), "optimization": goal}, *path)
    else:
        read.ignore(*path, why="only one result compared with a number ends a search: `accuracy >= 0.9`")


def _values(read: Reading, path: Path, strategy: str) -> Seq | None:
    """Return the values of a parameter; in a list one that all trials have is a value by itself."""
    value = read.get(*path)
    if not str(path[-1]).isidentifier():
        read.refuse(*path, why=f"{path[-1]!r} is not a valid param name")
    elif isinstance(value, Seq) and value:
        return value
    elif strategy == "list" and not isinstance(value, (Map, Seq)):
        one = Seq(place=read.place(*path))
        one.add(value, read.place(*path), getattr(read.peek(*path[:-1]), "texts", {}).get(path[-1]))
        return one
    else:
        read.refuse(*path, why="its values are missing", hint="write a list")
    return None


def _draws(read: Reading, spec: Path) -> int:
    """Return how many trials a random search draws."""
    path = (*spec, _OPTIONS, "max_iterations")
    count = read.get(*path) or _ITERATIONS
    if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= MOST:
        return count
    read.refuse(*path, why=f"{count!r} is no number of trials", hint=f"write a number from 1 to {MOST}")
    return _ITERATIONS


def _rows(read: Reading, values: Mapping[str, Seq], lists: Path, draws: int) -> Seq | None:
    """Return the trials one by one: row by row, or drawn, the same ones each time; None, with an error."""
    random = Random(0)  # noqa: S311 - trials are no secret
    chosen = [{name: random.randrange(len(found)) for name, found in values.items()} for _ in range(draws)]
    if not draws:
        count = max(map(len, values.values()))
        listed = [name for name in values if isinstance(read.peek(*lists, name), Seq)]
        for name in (name for name in listed if len(values[name]) != count):
            why = f"it has {len(values[name])} values, and another parameter has {count}"
            read.refuse(*lists, name, why=why, hint="in a list of trials, write as many of each")
            return None
        chosen = [{name: min(row, len(found) - 1) for name, found in values.items()} for row in range(count)]
    rows = Seq(place=read.place(*lists))
    for indices in chosen:
        row = Map(place=read.place(*lists))
        for name, at in indices.items():
            row.put(name, values[name][at], values[name].place_of(at))
            if at in values[name].texts:
                row.texts[name] = values[name].texts[at]
        rows.add(row, read.place(*lists))
    return rows


def _sample(values: Seq) -> object:
    """Return one of the values: one that is no number, if there is one."""
    return next((value for value in values if not isinstance(value, (int, float))), values[0])

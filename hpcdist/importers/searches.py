"""Searches of other systems: a reader says what is varied and how, and the writer makes ``hptuning``."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path
from hpcdist.importers.reading import Reading, placed

_OF_TEMPLATES: Final = frozenset({"true", "false", "none", "range", "loop", "self"})


def param_name(name: str) -> str:
    """Return the name that templates can have for a param: ``learning_rate`` for ``learning-rate``."""
    param = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not param.isidentifier() or param.lower() in _OF_TEMPLATES or keyword.iskeyword(param):
        param = f"_{param}" if param[:1].isdigit() else f"{param}_"
    return param


class ForeignSearch:
    """The search of a file; ``path`` is the key that has its values."""

    def __init__(self, read: Reading, *path: str | int) -> None:
        self.read, self.path = read, path
        self.section = Map(place=read.place(*path))
        self.matrix = Map(place=read.place(*path))

    def add(self, param: str, space: Map | None, *path: str | int) -> None:
        """Add the values of a param; those of one that was refused cause no further error."""
        place = self.read.place(*path)
        self.matrix.put(param, space or placed({"values": [1]}, place), place)

    def put(self, key: str, value: object, *path: str | int) -> None:
        """Set a key of the search."""
        place = self.read.place(*path)
        self.section.put(key, placed(value, place), place)

    def copy(self, names: Mapping[str, str], *above: str | int, to: Map | None = None) -> None:
        """Copy the keys of a section that are there, under their native names."""
        section = self.read.peek(*above)
        for theirs, ours in names.items():
            if isinstance(section, Map) and section.get(theirs) is not None:
                self.read.get(*above, theirs)
                (self.section if to is None else to).copy_from(section, theirs, ours)

    def compare_by(self, name: str | None, goal: str | None, *path: str | int) -> None:
        """Set the metric by which trials are compared."""
        if name and goal in ("maximize", "minimize"):
            self.put("metric", {"name": name, "optimization": goal}, *path)

    def static(self, algorithm: str, total: object, *path: str | int) -> None:
        """Set an algorithm that chooses all trials beforehand; ``total`` is None for all of them."""
        self.put(algorithm, {} if total is None else {"n_experiments": total}, *path)

    def bayes(self, total: int, initial: int, other: str, *path: str | int) -> None:
        """Set Bayesian optimization by the metric; a random search if all its trials are random.

        ``initial``: how many trials are random at first. ``other``: whose algorithm is another one.
        """
        if total <= initial:
            self.static("random_search", total, *self.path)
            why = f"all {total} trials are random ones, since the first {initial} of such a search are"
            self.read.warn(*path, why=why)
            return
        section = placed({"n_initial_trials": initial, "n_iterations": total - initial}, self.section.place)
        self.with_metric("bo", section)
        if other:
            why = f"Optuna's TPE chooses the trials, and not {other}; the first {initial} are random ones"
            self.read.warn(*path, why=why)

    def with_metric(self, algorithm: str, section: Any) -> None:
        """Set an algorithm that needs the metric."""
        if "metric" in self.section:
            section.copy_from(self.section, "metric")
            self.section.drop("metric")
        self.section.put(algorithm, section, section.place)

    def stop(self, stop: Mapping[str, Any], *path: str | int) -> None:
        """Add when the search ends, or trials of it."""
        place = self.read.place(*path)
        stops = self.section.get("early_stopping") or Seq(place=place)
        stops.add(placed(stop, place), place)
        self.section.put("early_stopping", stops, place)

    def end_trials(self, policy: Mapping[str, Any], *path: str | int) -> None:
        """Add a policy by which running trials end, by the metric of the search."""
        metric: Path | Any = self.section.get("metric")
        if isinstance(metric, Map):
            named = {"metric": metric["name"], "optimization": metric["optimization"]}
            self.stop({**named, "policy": policy}, *path)

    def write(self) -> None:
        """Put the search, unless nothing is varied."""
        if self.matrix:
            self.section.put("matrix", self.matrix, self.matrix.place)
        if self.matrix or "mapping" in self.section:
            self.read.put("hptuning", self.section, *self.path)

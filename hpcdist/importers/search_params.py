"""What searches of all forms have: names of params that templates can have, and Bayesian optimization."""

from __future__ import annotations

import keyword
import re
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Place
from hpcdist.importers.reading import placed

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

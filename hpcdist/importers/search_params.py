"""Params of searches: names that templates can have, and values of one whose own are refused."""

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

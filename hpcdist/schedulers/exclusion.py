"""Nodes that a job must not get, and constraints that name nodes already."""

from __future__ import annotations

import re
from typing import Final

_NODES: Final = re.compile(r"\b(?:h|host|hname|hostname)\s*(?:[=!]?=|:)")


def names_nodes(constraint: str | None) -> bool:
    """Return whether a constraint names nodes, in the words of Grid Engine, LSF or Flux."""
    return bool(_NODES.search(constraint or ""))

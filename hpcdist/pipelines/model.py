"""A pipeline: operations in the order in which they are submitted, and what each needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.documents.tree import Document, Map
from hpcdist.errors import Place, Problem
from hpcdist.loading.planning import ExperimentOptions

CONDITIONS: Final = ("afterok", "afterany", "afternotok", "after", "aftercorr")
"""How an operation may wait for another one; which of them a batch system has, its scheduler says."""


class Need(NamedTuple):
    """Another operation that must have ended, in the way of the ``condition``, before one starts."""

    operation: str
    condition: str = "afterok"
    place: Place | None = None


class Operation(NamedTuple):
    """One run of a pipeline: its experiment, as read with these options, and what it needs.

    ``is_inline``: its experiment is a part of the pipeline's file; else ``params`` are what it is given.
    """

    name: str
    options: ExperimentOptions
    document: Document
    needs: tuple[Need, ...] = ()
    is_inline: bool = True
    place: Place | None = None
    params: Map = Map()


class Pipeline(NamedTuple):
    """A pipeline; no operation stands before one that it needs. ``problems``: warnings and notes."""

    name: str
    document: Document
    operations: tuple[Operation, ...]
    params: Mapping[str, object]
    problems: tuple[Problem, ...] = ()

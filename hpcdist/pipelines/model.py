"""A pipeline: operations in the order in which they are submitted, and what each needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hpcdist.documents.tree import Document, Map, Seq, texts_in
from hpcdist.errors import Path, Place, Problem
from hpcdist.loading.planning import ExperimentOptions

# --- What texts of an operation take from its pipeline: params, and the outputs of other operations
#
# ``{{ ops.prep.outputs.path }}`` is the folder of what the run of ``prep`` keeps, ``{{ params.size }}`` or
# ``{{ size }}`` a param of the pipeline. Both are filled in before the experiment is read, so that a run's
# record of its experiment is complete.

_REFERENCE: Final = re.compile(
    r"\{\{-?\s*(?:ops\.(?P<op>[\w-]+)\.outputs\.path|(?:params\.)?(?P<param>[A-Za-z_]\w*))\s*-?\}\}"
)
_OF_OPS: Final = re.compile(r"\{\{[^{}]*\bops\b[^{}]*\}\}")
_HINT: Final = "write `{{ ops.NAME.outputs.path }}`: the folder of the outputs of an operation"

Fill = Callable[["re.Match[str]"], object]


def operations(data: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the operations whose outputs are used, each with the path of the text that does."""
    for where, text in texts_in(data, path):
        yield from ((where, match["op"]) for match in _REFERENCE.finditer(text) if match["op"])


def params(data: object) -> Iterator[str]:
    """Yield the names of the params that are used, or would be if the pipeline has them."""
    for _, text in texts_in(data, ()):
        yield from (match["param"] for match in _REFERENCE.finditer(text) if match["param"])


def problems(data: object, path: Path = ()) -> Iterator[Problem]:
    """Yield what is written like such a reference and is none."""
    for where, text in texts_in(data, path):
        for match in _OF_OPS.finditer(text):
            if not _REFERENCE.fullmatch(match[0]):
                yield Problem(f"{match[0]} is nothing that an operation has", where, _HINT)


def filled(data: Any, outputs: Callable[[str], str], params: Mapping[str, object]) -> Any:
    """Return the data with these references filled in; a text that is one param becomes its value."""

    def value(match: re.Match[str]) -> object:
        if match["op"]:
            return outputs(match["op"])
        return params.get(match["param"], match[0])

    def fill(node: Any) -> Any:
        if isinstance(node, (Map, Seq)):
            return node.mapped(lambda _, item: fill(item))
        if not isinstance(node, str):
            return node
        whole = _REFERENCE.fullmatch(node)
        return value(whole) if whole else _REFERENCE.sub(lambda match: str(value(match)), node)

    return fill(data)


# --- A pipeline

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

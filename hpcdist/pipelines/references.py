"""What texts of an operation take from its pipeline: params, and the outputs of other operations.

``{{ ops.prep.outputs.path }}`` is the folder of what the run of ``prep`` keeps, ``{{ params.size }}`` or
``{{ size }}`` a param of the pipeline. Both are filled in before the experiment is read, so that a run's
record of its experiment is complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq, texts_in
from hpcdist.errors import Path, Problem

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

"""Which param of a file is its number of nodes, where the counts of replicas or nodes follow from params."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hpcdist.documents.tree import Document, value_at
from hpcdist.errors import ConfigError, Path, Place, Problem, comma_list, did_you_mean
from hpcdist.experiment.node_counts import NODES
from hpcdist.loading.planning import Planned

WORKERS: Final[Path] = ("environment", "replicas", "n_workers")
_NAME: Final = re.compile(r"(n|num|number_of)?_?nodes|nnodes", re.IGNORECASE)
_HINT: Final = "name it by --nodes-param NAME, or write a number in its place"


class NodeParam(NamedTuple):
    """The param by ``name``, empty if there is none; ``templated``: the counts that follow from params."""

    name: str
    templated: frozenset[Path]


def find(base: Planned, native: Document, named: str) -> NodeParam:
    """Return the param of this name, else the only one that can be the number of nodes.

    It can where it has the value that the plan has, and the counts are made of it, or it is named so.
    ``native``: the file before its templates are filled in.

    Raises:
        ConfigError: if there is no such param, or counts follow from params and it is not clear from which.
    """
    params = base.experiment.params
    texts = {path: text for path in (WORKERS, NODES) if "{" in (text := str(value_at(native.data, path)))}
    if named and named not in params:
        hint, place = did_you_mean(named, params) or "the file has no `params`", Place("--nodes-param", 0, 0)
        raise ConfigError(Problem(f"there is no param {named!r}", hint=hint, place=place))
    found = [named] if named else _candidates(base, params, texts)
    if len(found) > 1 or (texts and not found):
        path = next(iter(texts), ("params",))
        which = f": {comma_list(found)}" if found else ""
        message = f"which param is the number of nodes is not clear{which}"
        raise ConfigError(base.document.locate(Problem(message, path, _HINT)))
    return NodeParam(found[0] if found else "", frozenset(texts))


def _candidates(base: Planned, params: Mapping[str, Any], texts: Mapping[Path, str]) -> list[str]:
    words = {word for text in texts.values() for word in re.findall(r"[^\W\d]\w*", text)}
    equal = (name for name, value in params.items() if _is_number(value, base.plan.placement.nodes))
    return [name for name in equal if name in words or (not texts and _NAME.fullmatch(name))]


def _is_number(value: object, nodes: int) -> bool:
    return not isinstance(value, bool) and value == nodes

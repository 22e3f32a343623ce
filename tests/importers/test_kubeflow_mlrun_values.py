"""No value of a file is lost: where one is another, something else is read, or it was spoken of."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Path

HERE = pathlib.Path(__file__).parent
FILES = [
    path
    for form in ("kubeflow", "mlrun")
    for path in sorted((HERE / form).glob("*.yml"))
    if "expected" not in path.name
]
OWN = ("/etc/mpi/", "--rdzv")
"""How words of launch lines begin that say where replicas meet, which hpcdist says itself."""


def has_no_meaning(path: Path, value: object) -> bool:
    """Whether it is what a container is called in its pod, the version of the API, or one of those words."""
    named = path[-3:-2] == ("containers",) and path[-1] == "name"
    return named or path == ("apiVersion",) or str(value).startswith(OWN)


def leaves(node: Any, path: Path = ()) -> Iterator[Path]:
    steps = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    below = [leaf for step, item in steps for leaf in leaves(item, (*path, step))]
    yield from below or ([path] if node or node == 0 else [])


def other(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, (int, float)) else f"{value}zzz"


def found(data: dict[str, Any]) -> tuple[object, list[tuple[Path, str]]]:
    """Return what is read of a file, and what is prefix about it."""
    try:
        read = importers.read(source.parse(json.dumps(data), "f.yml").data)
    except ConfigError as error:
        return None, [(problem.path, str(problem)) for problem in error.problems]
    return read.data, [(problem.path, str(problem)) for problem in read.remarks]


@pytest.mark.extended
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_value_is_read_or_reported(path: pathlib.Path) -> None:
    content = json.loads(json.dumps(source.load(path).data))
    before = found(content)
    reported = [tuple(map(str, prefix)) for prefix, _ in before[1] if prefix]
    lost = []
    for leaf in leaves(content):
        changed = copy.deepcopy(content)
        above = functools.reduce(lambda node, step: node[step], leaf[:-1], changed)
        spelt = tuple(map(str, leaf))
        if has_no_meaning(leaf, above[leaf[-1]]) or any(
            spelt[: len(prefix)] == prefix for prefix in reported
        ):
            continue
        above[leaf[-1]] = other(above[leaf[-1]])
        if found(changed) == before:
            lost.append(leaf)
    assert lost == []

"""Notebooks and TensorBoards: jobs of one task that serve a browser elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Problem

KINDS: Final = ("notebook", "tensorboard")
_BACKENDS: Final = ("lab", "notebook", "server")
_PROGRAM: Final = 'python3 "$HPCDIST_RUN_DIR/runtime/python/hpcdist_service.py"'
_ALONE: Final = ("run", "framework", "hptuning")
SETTINGS: Final = frozenset({*_ALONE, "environment", "batch", "backend", "params"})
"""The keys of which not all values are for a job that serves."""

_PARAMS: Final = {"notebook": ("folder", "bind"), "tensorboard": ("logdir",)}


def is_served(command: str) -> bool:
    """Return whether a job with this command serves a browser."""
    return command.startswith(_PROGRAM)


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Make an ordinary job of it, whose command is ``templates/python/hpcdist_service.py``."""
    kind = data.get("kind")
    if kind not in KINDS:
        return
    remarks += _problems(data, kind)
    place = data.place_of("kind")
    words = [_PROGRAM, kind, *([str(data.get("backend") or "lab")] if kind == "notebook" else [])]
    data.drop("backend")
    data.put("kind", "job", place)
    data.put("run", Map({"cmd": " ".join(words)}, place=place), place)


def _problems(data: Map, kind: str) -> Iterator[Problem]:
    for key in _ALONE:
        if key in data:
            message, hint = f"a {kind} has a command of its own and one task", "remove it"
            yield Problem(message, (key,), hint, place=data.place_of(key))
    environment = data.get("environment")
    if isinstance(environment, Map) and environment.get("replicas"):
        place = environment.place_of("replicas")
        yield Problem(f"a {kind} has one task", ("environment", "replicas"), "remove them", place=place)
    batch = data.get("batch")
    if isinstance(batch, Map) and batch.get("array") is not None:
        message = f"a {kind} is one server, with one address"
        yield Problem(message, ("batch", "array"), "remove it", place=batch.place_of("array"))
    backend = data.get("backend")
    if kind == "tensorboard" and backend is not None:
        yield Problem(
            "a tensorboard has no backend", ("backend",), "remove it", place=data.place_of("backend")
        )
    if kind == "notebook" and backend not in (None, *_BACKENDS):
        yield Problem(
            f"there is no backend {backend!r} of notebooks",
            ("backend",),
            f"write {', '.join(_BACKENDS[:-1])} or {_BACKENDS[-1]}",
            place=data.place_of("backend"),
        )
    params = data.get("params")
    if isinstance(params, Map):
        yield from _of_params(params, kind)


def _of_params(params: Map, kind: str) -> Iterator[Problem]:
    known = _PARAMS[kind]
    for name in params:
        if name not in known:
            message, hint = f"a {kind} has no param {name!r}", f"it has {' and '.join(known)}"
            yield Problem(message, ("params", name), hint, "warning", params.place_of(name))
        elif name != "bind" and (not isinstance(params[name], str) or "{{" in params[name]):
            message = f"{name} is the path of a folder, used as it is written"
            yield Problem(message, ("params", name), "write a path", place=params.place_of(name))
    if kind == "notebook" and params.get("bind") not in (None, "loopback", "node"):
        yield Problem(
            "a notebook listens on the loopback of its node, or on all addresses of it",
            ("params", "bind"),
            "write loopback or node",
            place=params.place_of("bind"),
        )

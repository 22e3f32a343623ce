"""Projects of MLRun: their only function of kind ``mpijob`` is run, else their only job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers.container import ignore_set_keys
from hpcdist.importers.reading import Reading
from hpcdist.words import quote

_SERVER: Final = "it is for a server of MLRun"
_IGNORED: Final = {
    **dict.fromkeys(("workflows", "workflow"),
                    "one function is run, not its workflow; chain jobs with `batch.dependency`"),
    "artifacts": "artifacts are not stored",
    "artifact_path": "what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
    "params": "they are the workflows'; write those of the function in its `spec.parameters`",
    **dict.fromkeys(("source", "origin_url", "subpath", "load_source_on_run", "workdir"),
                    "code is not fetched: the job runs the code in the submit directory"),
    **dict.fromkeys(
        ("desired_state", "goals", "owner", "conda", "custom_packagers", "default_function_node_selector",
         "default_image", "build", "notifications", "alert_template", "status", "mountdir", "secret_sources",
         "description", "disable_auto_mount", "requirements", "default_requirements", "user_project",
         "context", "branch", "tag", "repo", "pre_load_data"), _SERVER,
    ),
}  # fmt: skip
_ENTRY: Final = {"tag": _SERVER,
                 "with_repo": "code is not fetched: the job runs the code in the submit directory",
                 "requirements": "hpcdist builds no images", "hash": _SERVER}  # fmt: skip


_FILE: Final = re.compile(r"(?!\w+://).+\.ya?ml")
"""A file with a function, as an entry of a project names it."""


def is_project(data: Map) -> bool:
    """Decide by the kind with functions, or, in older projects, by functions with workflows."""
    spec = data.get("spec")
    inner = isinstance(spec, Mapping) and bool(spec.keys() & {"functions", "workflows"})
    if data.get("kind") == "project":
        return "run" not in data and (inner or "functions" in data or isinstance(spec, Mapping))
    return "kind" not in data and "functions" in data and "workflows" in data


def chosen(read: Reading) -> Path | None:
    """Return the path of the function to run; None, with an error, if there is not exactly one."""
    read.get("kind")
    base: Path = ("spec",) if isinstance(read.peek("spec"), Mapping) else ()
    for above in {(), base}:
        ignore_set_keys(read, _IGNORED, *above)
    ignore_set_keys(read, {"labels": _SERVER, "annotations": _SERVER, "created": _SERVER}, "metadata")
    for path in (("metadata", "name"), ("name",)):
        if isinstance(read.get(*path), str) and read.peek(*path):
            read.put("project", read.peek(*path), *path)
    where = (*base, "functions")
    items = [index for index, item in read.items(*where) if item is not None]
    jobs = [index for index in items if _is_job(read, (*where, index))]
    found = [index for index in items if _kind(read.peek(*where, index)) == "mpijob"] or jobs
    if len(found) != 1:
        _refuse(read, where, found)
        return None
    _warn_of_others(read, where, found[0])
    return _entry(read, (*where, found[0]))


def functions(data: Map) -> dict[Path, str]:
    """Return the paths of the functions of a project, with their names."""
    base: Path = ("spec",) if isinstance(data.get("spec"), Mapping) else ()
    read = Reading(data)
    return {(*base, "functions", index): _name(item, index) for index, item in read.items(*base, "functions")}


def named_file(data: Map) -> tuple[Path, str] | None:
    """Return the key and the file of the only function that is in a file; None where there is a job."""
    read = Reading(data)
    paths = functions(data)
    files = {
        path: str(read.peek(*path, "url")) for path in paths if _FILE.fullmatch(str(read.peek(*path, "url")))
    }
    if len(files) != 1 or any(_is_job(read, path) for path in paths):
        return None
    path, file = next(iter(files.items()))
    return (*path, "url"), file


def with_file(data: Map, other: Map) -> Map:
    """Return the project with the function of `named_file`; its entry may change image and handler."""
    found = named_file(data)
    return _changed(data, found[0][:-1], lambda item: _with_function(item, other)) if found else data


def _changed(node: Any, path: Path, change: Callable[[Map], Map]) -> Any:
    """Return a copy of a tree with another value at a path."""
    if not path:
        return change(node)
    return node.mapped(lambda step, value: _changed(value, path[1:], change) if step == path[0] else value)


def _with_function(item: Map, function: Map) -> Map:
    spec = function.get("spec")
    spec = spec.copy() if isinstance(spec, Map) else Map(place=function.place)
    for key, name in (("image", "image"), ("handler", "default_handler")):
        if key in item:
            spec.copy_from(item, key, name)
    new, whole = Map(place=item.place), function.copy()
    whole.put("spec", spec, spec.place)
    if "name" in item:
        new.copy_from(item, "name")
    new.put("spec", whole, whole.place)
    return new


def _kind(item: object) -> object:
    if not isinstance(item, Mapping):
        return None
    inner = item.get("spec")
    return inner.get("kind") if isinstance(inner, Mapping) and "kind" in inner else item.get("kind")


def _name(item: Any, index: int) -> str:
    inner = item.get("spec") if isinstance(item, Mapping) else None
    named = inner.get("metadata") if isinstance(inner, Mapping) else None
    own = item.get("name") if isinstance(item, Mapping) else None
    return str(own or (named.get("name") if isinstance(named, Mapping) else None) or f"number {index}")


def _is_job(read: Reading, path: Path) -> bool:
    return _kind(read.peek(*path)) in ("job", "mpijob", "local") or is_program_entry(read, path)


def _refuse(read: Reading, where: Path, found: list[int]) -> None:
    files = [at for at, item in read.items(*where) if _FILE.fullmatch(_url(item))]
    chosen = found or (files if len(files) > 1 else [])
    names = [_name(read.peek(*where, index), index) for index in chosen]
    others = [
        f"{_name(item, index)} ({_kind(item) or _url(item)})"
        for index, item in read.items(*where) if item is not None and index not in found
    ]  # fmt: skip
    read.get(*where)
    if names:
        hint = f"choose one: `--name {quote(names[0])}`"
        read.refuse(*where, why=f"this project has several functions: {', '.join(names)}", hint=hint)
    else:
        hint = f"there are: {', '.join(others)}" if others else "write one, or give the file of a function"
        read.refuse(*where, why="no function in this file is a job", hint=hint)


def _url(item: object) -> str:
    return str(item.get("url", "no kind")) if isinstance(item, Mapping) else "no kind"


def _warn_of_others(read: Reading, where: Path, taken: int) -> None:
    name = _name(read.peek(*where, taken), taken)
    for index, item in read.items(*where):
        if index != taken and item is not None:
            read.get(*where, index)
            read.warn(*where, index, why=f"the function {_name(item, index)} is not run: only {name} is")


def is_program_entry(read: Reading, path: Path) -> bool:
    """Return whether an entry names a program, of kind mpijob or job, instead of a function."""
    url, kind = read.peek(*path, "url"), read.peek(*path, "kind")
    remote = isinstance(url, str) and "://" in url
    named = isinstance(url, str) and url.endswith(".py") and not remote
    return named and kind in (None, "", "job", "mpijob", "local") and read.peek(*path, "spec") is None


def _entry(read: Reading, path: Path) -> Path | None:
    """Return the path of the function of an entry, or of an entry that names its program."""
    if isinstance(read.peek(*path, "spec"), Mapping) and "kind" in read.peek(*path, "spec"):
        name, own = read.get(*path, "name"), read.peek(*path, "spec", "metadata", "name")
        if name and own and name != own:
            read.warn(*path, "name", why=f"the job is named {own!r}, as the function itself is")
        ignore_set_keys(read, _ENTRY, *path)
        return (*path, "spec")
    if isinstance(read.peek(*path, "spec"), Mapping) or read.peek(*path, "metadata") is not None:
        return path
    ignore_set_keys(read, _ENTRY, *path)
    if is_program_entry(read, path):
        return path
    hint = "give that file, or write the function here, with `kind`, `metadata` and `spec`"
    read.get(*path)
    read.refuse(*path, why="the function is not in this file", hint=hint)
    return None

"""Init steps of Polyaxon 1 and 2 (``V1Init``): files are written in front of the command, others reported."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hpcdist.errors import Path
from hpcdist.importers.container import escape_templates
from hpcdist.importers.polyaxon.contexts import ARTIFACTS
from hpcdist.importers.polyaxon_v1.text import Texts
from hpcdist.importers.reading import Reading
from hpcdist.words import quote

_COPY: Final = "copy it to the site's own file system before, and write its path in the command"
_FIRST: Final = "do it before the job is submitted, or in front of the command"
_HINTS: Final = {
    **dict.fromkeys(("artifacts", "paths", "modelRef", "artifactRef", "lineageRef", "tensorboard"), _COPY),
    "dockerfile": "hpcdist builds no images: build it beforehand",
    "container": "run its command before the job is submitted, or in front of the command",
    "file": "write it beside the code",
}
_MOUNTS: Final = "nothing is mounted; write the path of the site's own file system in the command"
_CODE: Final = "code is not fetched: the job runs the code in the submit directory"
_FILE_KEYS: Final = frozenset(("filename", "content", "chmod", "kind"))
_MODE: Final = re.compile(r"[0-7]{3,4}|[ugoa]*[-+=][rwxX]+")


def steps_of(read: Reading, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the init steps of a run and of its roles, each with its path."""
    for place in (path, *((*path, name) for name in read.keys(*path))):
        for index, step in read.items(*place, "init"):
            if isinstance(step, Mapping):
                yield (*place, "init", index), step


def repository(read: Reading, path: Path) -> str | None:
    """Return the name of the code that init steps fetch, empty if it is not exactly one.

    None if there is none, and Polyaxon's folder of code has only files that are in this file.
    """
    steps = [step for _, step in steps_of(read, path)]
    urls = {str(step["git"].get("url", "")) for step in steps if isinstance(step.get("git"), Mapping)}
    if not urls and any(_is_file(step) for step in steps) and read.peek(*path, "kind") != "mpijob":
        return None
    return re.sub(r"^.*/|\.git$", "", urls.pop().rstrip("/")) if len(urls) == 1 else ""


def read_init(read: Reading, texts: Texts, path: Path) -> str:
    """Take the init steps of a role; return the lines that write its files."""
    lines = []
    for index, step in read.items(*path, "init"):
        where = (*path, "init", index)
        if isinstance(step, Mapping) and _is_file(step) and texts.repository is None:
            lines += _file(read, texts, (*where, "file"))
        else:
            _report(read, texts, step, where)
    first = [f"{ARTIFACTS}=$(mktemp -d) || exit"] if lines else []
    return "".join(f"{line}\n" for line in (*first, *lines))


def _is_file(step: Mapping[str, Any]) -> bool:
    """Return whether a step writes a file into Polyaxon's folder of code."""
    file = step.get("file")
    keys = {key for key, value in step.items() if value not in (None, "", [], {})}
    if not isinstance(file, Mapping) or keys != {"file"} or not file.keys() <= _FILE_KEYS:
        return False
    return file.get("kind") in (None, "file") and isinstance(file.get("content"), (str, int, float))


def _file(read: Reading, texts: Texts, path: Path) -> list[str]:
    content = texts.command([(read.text(*path, "content") or "").rstrip("\n")], (), *path, "content")
    name = posixpath.normpath(read.text(*path, "filename") or "file")
    mode = read.text(*path, "chmod")
    read.get(*path, "kind")
    if name.startswith(("/", "..")) or "{{" in name:
        why = f"{name!r} is not in the folder of code"
        read.refuse(*path, "filename", why=why, hint="write its name only")
    if mode and not _MODE.fullmatch(mode):
        read.refuse(*path, "chmod", why=f"{mode!r} is not a mode", hint="write +x or 755")
    file, folder = f'"${ARTIFACTS}"/{quote(name)}', posixpath.dirname(name)
    return [
        *([f'mkdir -p "${ARTIFACTS}"/{quote(folder)}'] if folder else []),
        f"printf '%s\\n' {content} > {file}",
        *([f"chmod {mode} {file}"] if mode else []),
    ]


def _report(read: Reading, texts: Texts, step: object, path: Path) -> None:
    """Report a step that is not done."""
    names = list(step) if isinstance(step, Mapping) else []
    if names and all(name in ("git", "connection", "path") for name in names):
        if "git" in names:
            _code(read, texts, (*path, "git"))
        read.ignore(*path, "connection", why=_MOUNTS)
        read.get(*path, "path")
        return
    hint = next((_HINTS[name] for name in names if name in _HINTS), _FIRST)
    read.refuse(*path, why=f"init steps are not run ({', '.join(names) or 'it'})", hint=hint)


def _code(read: Reading, texts: Texts, path: Path) -> None:
    """Take the repository of the code as ``build.git``; report it where there are several."""
    url, revision = (read.text(*path, key) for key in ("url", "revision"))
    if url and texts.repository:
        read.put("build.git", escape_templates(url), *path, "url")
        if revision:
            read.put("build.commit", escape_templates(revision), *path, "revision")
        read.ignore(*path, "flags", why="a clone has no options")
        return
    read.get(*path)
    what = f"revision {revision}" * bool(revision) + " of " * bool(url and revision) + (url or "")
    hint = f"check out {what} there" if what else ""
    read.warn(*path, why=f"git has no effect on a batch machine: {_CODE}", hint=hint)

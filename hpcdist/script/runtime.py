"""The run's files: what a submitted script hands over to, as ordinary files in ``RUN/runtime``.

They are the same in every run of this version: the supervisor, and the modules for programs in Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from hpcdist.base.errors import RenderError
from hpcdist.base.resources import template_folders
from hpcdist.plan.model import Plan

FOLDER: Final = "runtime"
LIST: Final = "files"
"""The file with the digests of all others, as sha256sum(1) reads them; a script has the digest of this."""

_PATTERNS: Final = {
    "runtime": (
        "__main__.py",
        "elastic.py",
        "packed.py",
        "supervise.sh",
        "unsupervised.sh",
        "supervisor/*.py",
        "supervisor/*.sh",
    ),
    "python": ("*.py",),
}
"""Which files of the template folders are the run's; the modules lie in ``RUN/runtime/python``."""


def files(folders: Iterable[Path] | None = None) -> Mapping[str, str]:
    """Return the texts of the run's files by their paths below ``RUN/runtime``.

    Raises:
        RenderError: when one cannot be read.
    """
    return _read(tuple(folders or template_folders()))


def digest(folders: Iterable[Path] | None = None) -> str:
    """Return the digest of their list, which stands in a submitted script."""
    return _digest(files(folders)[LIST])


def needs(plan: Plan) -> str:
    """Return what a job needs the supervisor for; it does not start without one."""
    own = {
        "search": plan.sweep,
        "shell": plan.shell,
        "steps": plan.steps,
        "restarts": plan.completion.restarts or plan.completion.max_restarts,
    }
    return next((what for what, value in own.items() if value), "")


@cache
def _read(folders: tuple[Path, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    try:
        for folder in reversed(folders):
            for below, patterns in _PATTERNS.items():
                for pattern in patterns:
                    for file in (folder / below).glob(pattern):
                        path = file.relative_to(folder if below == "python" else folder / below)
                        found[str(path)] = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RenderError(f"{error.filename}: {error.strerror}") from error
    return {**found, LIST: listed({f"runtime/{name}": text for name, text in found.items()})}


def listed(texts: Mapping[str, str]) -> str:
    """Return the digests of files, by their names, as sha256sum(1) reads them."""
    return "".join(f"{_digest(text)}  {name}\n" for name, text in sorted(texts.items()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""What is recorded of the code of a run's program: ``code.json``, which `hpcdist.code` writes."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from hpcdist.code.prepare import RECORD
from hpcdist.runs.rundir import RunDirectory

_MAX_BYTES: Final = 1 << 24
_TEXTS: Final = ("source", "folder", "start", "commit", "branch", "remote")


class CodeRecord(NamedTuple):
    """Where the code was, its commit, and the files that differed from it; None is unknown.

    ``folder``: where it was submitted. ``start``: where its jobs start, if that is a copy.
    """

    source: str | None = None
    folder: str | None = None
    start: str | None = None
    commit: str | None = None
    branch: str | None = None
    remote: str | None = None
    dirty: bool | None = None
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()

    @property
    def job_folder(self) -> str:
        """Where its jobs start; empty if that is not known."""
        return self.start or self.folder or ""


def read(directory: RunDirectory) -> CodeRecord:
    """Return the record of a run; what is missing or damaged of it is unknown."""
    try:
        data = json.loads(directory.read(RECORD, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return CodeRecord()
    if not isinstance(data, dict):
        return CodeRecord()
    texts = {name: text for name in _TEXTS if isinstance(text := data.get(name), str)}
    dirty = data.get("dirty")
    changed, untracked = _names(data.get("changed")), _names(data.get("untracked"))
    return CodeRecord(
        **texts, dirty=dirty if isinstance(dirty, bool) else None, changed=changed, untracked=untracked
    )


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()

"""What the program of a run was made of, by the record that `hpcdist.code` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hpcdist.code.prepare import RECORD
from hpcdist.report import limits
from hpcdist.report.limits import Share
from hpcdist.runs.rundir import RunDirectory

_MOST_BYTES: Final = 1 << 24
_SHOWN: Final = {
    "source": "code",
    "folder": "folder",
    "commit": "commit",
    "branch": "branch",
    "remote": "remote",
}


class CodeState(NamedTuple):
    """Facts by their names, the files that differ from the commit, and the begin of the difference."""

    facts: Mapping[str, str]
    changed: Share[str] = Share()
    untracked: Share[str] = Share()
    diff: Share[str] = Share()


def read(directory: RunDirectory, characters: int) -> CodeState | None:
    """Return it; None where there is no record."""
    try:
        data = json.loads(directory.read(RECORD, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    facts = {name: text for key, name in _SHOWN.items() if isinstance(text := data.get(key), str)}
    if isinstance(dirty := data.get("dirty"), bool):
        facts["changes"] = "files differ from the commit" if dirty else "none"
    return CodeState(
        facts,
        limits.first(_names(data.get("changed")), characters),
        limits.first(_names(data.get("untracked")), characters),
        limits.first(_diff(directory), characters * 2),
    )


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _diff(directory: RunDirectory) -> list[str]:
    try:
        text = directory.read("code.diff", _MOST_BYTES)
    except OSError:
        return []
    return text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else []

"""What the program of a run was made of, for a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.report import limits
from hpcdist.report.limits import Share
from hpcdist.runs import code_record
from hpcdist.runs.code_record import CodeRecord
from hpcdist.runs.rundir import RunDirectory

_MOST_BYTES: Final = 1 << 24


class CodeState(NamedTuple):
    """Facts by their names, the files that differ from the commit, and the begin of the difference."""

    facts: Mapping[str, str]
    changed: Share[str] = Share()
    untracked: Share[str] = Share()
    diff: Share[str] = Share()


def read(directory: RunDirectory, characters: int) -> CodeState | None:
    """Return it; None where there is no record."""
    found = code_record.read(directory)
    if found == CodeRecord():
        return None
    facts = {
        "code": found.source,
        "folder": found.folder,
        "commit": found.commit,
        "branch": found.branch,
        "remote": found.remote,
        "changes": None if found.dirty is None else "files differ from the commit" if found.dirty else "none",
    }
    return CodeState(
        {name: text for name, text in facts.items() if text is not None},
        limits.first(found.changed or (), characters),
        limits.first(found.untracked or (), characters),
        limits.first(_diff(directory), characters * 2),
    )


def _diff(directory: RunDirectory) -> list[str]:
    try:
        text = directory.read("code.diff", _MOST_BYTES)
    except OSError:
        return []
    return text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else []

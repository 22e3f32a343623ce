"""What is recorded of the code of a run's program: ``code.json``, which `hpcdist.runs.code_copy` writes."""

from __future__ import annotations

import json
from typing import Final

import msgspec
from msgspec import Struct

from hpcdist.runs.code_copy import RECORD
from hpcdist.runs.rundir import RunDirectory

_MAX_BYTES: Final = 1 << 24


class CodeRecord(Struct, frozen=True):
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
    changed: tuple[str, ...] | None = None
    untracked: tuple[str, ...] | None = None

    @property
    def job_folder(self) -> str:
        """Where its jobs start; empty if that is not known."""
        return self.start or self.folder or ""


def read(directory: RunDirectory) -> CodeRecord:
    """Return the record of a run; all fields are None if it is missing or damaged."""
    try:
        # Not msgspec.json: a name that is not UTF-8 is stored as a lone surrogate.
        return msgspec.convert(json.loads(directory.read(RECORD, _MAX_BYTES)), CodeRecord)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return CodeRecord()

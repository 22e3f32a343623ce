"""What lies outside, as one value that every verb is given: processes, time, chance and the disk."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from hpcdist import rundir
from hpcdist.command import Runner
from hpcdist.rundir import Record, Run, RunDirectory


def new_token() -> str:
    """Return what tells one submission from all others."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class World:
    """The real one needs a ``Shell`` only; tests hand in functions of their own."""

    runner: Runner
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = new_token
    save: Callable[[RunDirectory, Record], None] = rundir.save

    def update(self, run: Run, **changes: Any) -> Run:
        """Return the run with these changes of its record, once they are on the disk."""
        record = msgspec.structs.replace(run.record, **changes)
        self.save(run.directory, record)
        return replace(run, record=record)

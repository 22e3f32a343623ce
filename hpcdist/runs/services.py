"""What lies outside, as one value that every verb is given: processes, time, chance and the disk."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hpcdist.errors import ConfigError
from hpcdist.host import locks
from hpcdist.host.command import Runner
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Record, Run, RunDirectory


def new_token() -> str:
    """Return what tells one submission from all others."""
    import secrets  # with all of `random`, for submitters only

    return secrets.token_hex(8)


class Services(NamedTuple):
    """The real one needs a ``Shell`` only; tests hand in functions of their own."""

    runner: Runner
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = new_token
    save: Callable[[RunDirectory, Record], None] = rundir.save
    create: Callable[[Path, str], RunDirectory] = rundir.create
    host: str = os.uname().nodename

    def update(self, run: Run, **changes: Any) -> Run:
        """Return the run with these changes of its record, once they are on the disk.

        What another process has written there meanwhile, in other fields, stays; so does all of it where its
        phase is a later one. Processes of one host do this one after the other.
        """
        with run.directory.opened() as handle, locks.folder(handle, self.sleep):
            record = reread(run).record.changed(**changes)
            self.save(run.directory, record)
        return run._replace(record=record)

    def try_update(self, run: Run, **changes: Any) -> Run:
        """As `update`; where the disk is full, or another user's, only the returned run has the changes."""
        with contextlib.suppress(OSError):
            return self.update(run, **changes)
        return run._replace(record=run.record.changed(**changes))


def reread(run: Run) -> Run:
    """Return the run with the record that is on the disk now, where it can be read."""
    with contextlib.suppress(ConfigError):
        return run._replace(record=run.directory.record())
    return run

"""Processes, time, randomness and the disk, as one value that is passed to the verbs."""

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
    """Return a token that identifies one submission."""
    import secrets  # imports `random`, needed by `submit` only

    return secrets.token_hex(8)


class Services(NamedTuple):
    """The real services need only a ``Shell``; tests pass their own functions."""

    runner: Runner
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = new_token
    save: Callable[[RunDirectory, Record], None] = rundir.save
    create: Callable[[Path, str], RunDirectory] = rundir.create
    host: str = os.uname().nodename

    def update(self, run: Run, **changes: Any) -> Run:
        """Save these changes of the run's record and return the changed run.

        Other fields that another process has changed meanwhile are kept; if its phase is a later one, so are
        all fields. Updates of processes on one host are serialized by a lock.
        """
        with run.directory.opened() as handle, locks.folder(handle, self.sleep):
            record = reread(run).record.changed(**changes)
            self.save(run.directory, record)
        return run._replace(record=record)

    def try_update(self, run: Run, **changes: Any) -> Run:
        """As `update`, but if the record cannot be written, only the returned run has the changes."""
        with contextlib.suppress(OSError):
            return self.update(run, **changes)
        return run._replace(record=run.record.changed(**changes))


def reread(run: Run) -> Run:
    """Return the run with its record read again, or unchanged if that cannot be read."""
    with contextlib.suppress(ConfigError):
        return run._replace(record=run.directory.record())
    return run


def renewed(run: Run) -> Run:
    """Return the run with the records of all its jobs, to which others may have been added, or unchanged."""
    with contextlib.suppress(ConfigError):
        return rundir.read(run.directory)
    return run

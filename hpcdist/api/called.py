"""What the function of `call` returned or raised, from the files of its run."""

from __future__ import annotations

import os
import pickle
import re
from typing import Any, Final, NamedTuple

from hpcdist.api import remote_runs
from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, JobFailed, Problem
from hpcdist.runs import failures
from hpcdist.runs.remotes import here
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import renewed
from hpcdist.schedulers.job import JobState
from hpcdist.searches import progress

_RAISED: Final = re.compile(r"(call(?:\.[0-9]{1,9})?)\.raised\.([0-9]{1,9})")
_OTHERS_WRITE: Final = 0o022


class RemoteTraceback(Exception):  # noqa: N818 - as of concurrent.futures: the cause that is printed
    """The traceback of the task, as text; the cause of the exception that it raised."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class CallEnd(NamedTuple):
    """How a call ended: ``trial`` is its number in a run of `hpcdist.call_each`, ``state`` its own then."""

    state: str
    reason: str = ""
    trial: int | None = None


def ends(run: Run) -> dict[int, CallEnd]:
    """Return how each call of a run of `hpcdist.call_each` ended, by its number, with one query for all.

    Raises:
        ConfigError: if it is a run of one call.
    """
    found = progress.look(renewed(run), remote_runs.services()).trials
    return {trial.number: CallEnd(trial.state, trial=trial.number) for trial in found}


def result(run: Run, end: CallEnd) -> Any:
    """Return what rank 0 returned, or raise what the lowest rank that failed raised.

    Of a call that completed, an exception is of an earlier attempt, which may have had more ranks.

    Raises:
        JobFailed: if the job ended otherwise, without a result, or with one that cannot be read here.
        ConfigError: if others could have written the files, or a remote that is not trusted did.
    """
    own, shown = "call", run.name
    if end.trial is not None:
        own, shown = f"call.{end.trial}", f"{run.name}/{end.trial}"
    if end.state == JobState.COMPLETED.value and (run.directory.path / f"{own}.returned").exists():
        return _loaded(run, f"{own}.returned")
    found = (_RAISED.fullmatch(file.name) for file in run.directory.path.iterdir())
    numbers = [int(match[2]) for match in found if match and match[1] == own]
    if numbers:
        rank = min(numbers)
        error, text = _loaded(run, f"{own}.raised.{rank}")
        if isinstance(error, Exception):  # not SystemExit: that would end this process
            raise error from RemoteTraceback(f"rank {rank} of {shown}:\n{text}")
        raise JobFailed(Problem(f"rank {rank} of {shown} failed:\n{text}"))
    why = failures.failure_reason(run.directory) or end.reason or "it wrote no result"
    hint = f"`hpcdist logs {shown}` has its output"
    raise JobFailed(Problem(f"{shown} is {end.state}: {why}", hint=hint))


def _loaded(run: Run, name: str) -> Any:
    if not here.is_trusted(run):
        message = f"the result of {run.name} was written on {run.record.remote}, and is not read"
        hint = (
            "reading it would run on this machine what is in it; if you trust that machine, write "
            f"`remotes.{run.record.remote}.trusted: true` in your config"
        )
        raise ConfigError(Problem(message, hint=hint))
    data = _own(run.directory, name)
    try:
        return pickle.loads(data)  # noqa: S301 - written by a job of this user, as `_own` checks
    except Exception as error:
        message = f"the result of {run.name} cannot be read here: {type(error).__name__}: {error}"
        raise JobFailed(Problem(message, hint="what it returns must be importable here, too")) from error


def _own(directory: RunDirectory, name: str) -> bytes:
    """Return a file of this user that nobody else can write: unpickling runs what is in it."""
    with directory.opened() as handle, ownership.open_regular(name, at=handle) as stream:
        found = (os.fstat(handle), os.fstat(stream.fileno()))
        if all(one.st_uid == os.geteuid() and not one.st_mode & _OTHERS_WRITE for one in found):
            return stream.read()
    message = f"{directory.path / name} could have been written by other users, and is not read"
    raise ConfigError(Problem(message, hint="reading it would run what is in it"))

"""The services of this machine, the runs directory of its user, and submitting into it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import rundir

if TYPE_CHECKING:
    from hpcdist.base.command import Runner
    from hpcdist.runs.rundir import Run
    from hpcdist.runs.services import Services
    from hpcdist.runs.submission import SubmitOutput, SubmitRequest


def services() -> Services:
    """Return the services of this machine; what starts processes is imported only when needed."""
    from importlib.util import find_spec

    from hpcdist.base.shell import Shell
    from hpcdist.runs.services import Services

    runner: Runner = Shell()
    if find_spec("pyslurm") or os.environ.get("HPCDIST_SLURM_READER"):
        from hpcdist.schedulers.slurm import reader  # imports the Slurm code

        runner = reader.with_pyslurm(runner)
    return Services(runner, create=partial(rundir.create, trusts=trusts))


def check(runs_dir: Path) -> None:
    """Refuse a runs directory in which other users could replace job scripts, or whose path is not UTF-8.

    Raises:
        ConfigError: as `ownership.check` does, or if the path is not UTF-8.
    """
    try:
        str(runs_dir).encode()
    except UnicodeEncodeError:
        hint = "choose another directory with --runs-dir or $HPCDIST_RUNS_DIR"
        raise ConfigError(Problem(f"the path {runs_dir} is not valid UTF-8", hint=hint)) from None
    if runs_dir.is_dir():
        with ownership.folder(runs_dir) as handle:
            ownership.check(runs_dir, handle, trusts=trusts)


def submit(
    request: SubmitRequest, runs_dir: Path, services: Services, output: SubmitOutput, *, again: bool = False
) -> Run:
    """Submit as `submission.submit` does, into a runs directory that was checked.

    Raises:
        ConfigError: if the run cannot be written, or other users could replace its files.
        SchedulerError: as `submission.submit` does; and its other exceptions.
    """
    from hpcdist.runs import submission

    check(runs_dir)
    try:
        return submission.submit(request, runs_dir, services, output, again=again)
    except OSError as error:
        message = f"the run cannot be written: {error.filename or runs_dir}: {error.strerror}"
        raise ConfigError(Problem(message, hint="choose another directory with --runs-dir")) from error


def check_here(run: Run, verb: str, hint: str = "") -> None:
    """Refuse a run of a remote, which a verb does not reach; ``hint``: what to do instead.

    Raises:
        ConfigError: with the remote's name.
    """
    if remote := run.record.remote:
        message = f"{run.name} is on {remote}, where `hpcdist {verb}` does not reach it"
        raise ConfigError(Problem(message, hint=hint or f"its directory there is {run.record.there}"))


def trusts(runs_dir: Path) -> bool:
    """Return whether the user's config trusts this runs directory, to which others may write."""
    from hpcdist.loading import preferences  # rarely needed

    return preferences.trusts(preferences.read(os.environ), runs_dir)

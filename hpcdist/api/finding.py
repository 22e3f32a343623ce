"""The runs of a runs directory, and one of them by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from hpcdist.api.runs import Run
from hpcdist.api.values import text_of
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import finding, rundir


@dataclass(frozen=True)
class Runs(Sequence[Run]):
    """Runs, oldest first; ``problems``: those that could not be read, such as other users'."""

    _runs: tuple[Run, ...]
    problems: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Run, ...]: ...
    def __getitem__(self, place: int | slice) -> Run | tuple[Run, ...]:
        return self._runs[place]


def runs_directory(option: str | os.PathLike[str] | None) -> Path:
    """Return the runs directory: that of the argument, else as for the verbs."""
    chosen = None if option is None else text_of(option, "runs_dir")
    try:
        return rundir.choose(chosen, os.environ)
    except FileNotFoundError:
        message = "the current directory no longer exists"
        raise ConfigError(Problem(message, hint="change to another one, or give a whole path")) from None


def find_runs(runs_dir: str | os.PathLike[str] | None = None) -> Runs:
    """Return all runs of a runs directory, as `hpcdist status --offline`; the batch system is not asked.

    ``runs_dir``: by default $HPCDIST_RUNS_DIR, else ``runs``.
    """
    found, errors = finding.list_runs(runs_directory(runs_dir))
    problems = tuple(problem._replace(severity="warning") for error in errors for problem in error.problems)
    return Runs(tuple(map(Run, found)), problems)


def find_run(name: str | os.PathLike[str], runs_dir: str | os.PathLike[str] | None = None) -> Run:
    """Return a run by its name, its directory or its job id; or an operation: ``PIPELINE/NAME``.

    Raises:
        ConfigError: if there is none, or several have this job id.
    """
    return Run(finding.find(runs_directory(runs_dir), text_of(name, "name")))

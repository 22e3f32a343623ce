"""The code of a job, put into its run directory when it is submitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from hpcdist.code.prepare import LIMIT, RECORD, Choice, Code, prepare
from hpcdist.errors import ConfigError, Problem, located
from hpcdist.experiment.model import Experiment
from hpcdist.host.command import Runner
from hpcdist.loading.planning import Planned
from hpcdist.runs import copying
from hpcdist.runs.rundir import Run, RunDirectory

# --- What is recorded of the code of a run's program: ``code.json``, which `hpcdist.code` writes

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
    """Return the record of a run; all is unknown of one that is missing or damaged."""
    try:
        # Not msgspec.json: a name that is no UTF-8 stands there as a lone surrogate.
        return msgspec.convert(json.loads(directory.read(RECORD, _MAX_BYTES)), CodeRecord)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return CodeRecord()


# --- The code of a job, put into its run directory when it is submitted


def prepared(
    made: Planned, directory: RunDirectory, runner: Runner, folder: Path | None = None, *, dry: bool = False
) -> Code:
    """Record or copy the code of an experiment that is submitted in this folder, by default the current one.

    Raises:
        ConfigError: as `prepare` does, with the places of the file.
        OSError: when the copy cannot be written.
    """
    locate = made.document.locate
    with located(lambda problem: locate(problem) if problem.path else problem):
        return prepare(choice_of(made.experiment, folder or Path.cwd()), directory.path, runner, dry=dry)


def choice_of(experiment: Experiment, folder: Path) -> Choice:
    """Return which code the experiment asks for."""
    batch, build = experiment.batch, experiment.build
    return Choice(
        folder,
        batch.code or "here",
        (build and build.git) or "",
        (build and (build.commit or build.branch)) or "",
        batch.max_code_size.mib << 20 if batch.max_code_size else LIMIT,
    )


def recorded(run: Run, made: Planned, directory: RunDirectory, runner: Runner, *, update: bool) -> Code:
    """Give a new run the code of an earlier one, or with ``update`` that which is now in its folder.

    A copy is copied; a job that runs in the folder itself finds what is there now.

    Raises:
        ConfigError: if there is no such code any more, or as `prepared`.
        OSError: when the copy cannot be written.
    """
    found = read(run.directory)
    wanted = made.experiment.batch.code or "here"
    if not update and wanted == found.source and found.start:
        return copying.copy_code(run.directory, directory)
    folder = Path(found.folder) if found.folder else Path.cwd()
    if not folder.is_dir():
        hint = "make it again, or submit the experiment from another folder"
        raise ConfigError(Problem(f"{folder}, where {run.name} was submitted, is gone", hint=hint))
    code = prepared(made, directory, runner, folder)
    return code if code.folder else code._replace(folder=str(folder))

"""The code of a job, put into its run directory when it is submitted."""

from __future__ import annotations

from pathlib import Path

from hpcdist.base.command import Runner
from hpcdist.base.errors import ConfigError, Problem, located
from hpcdist.experiment.model import Experiment
from hpcdist.loading.planning import Planned
from hpcdist.runs import code_record, copying
from hpcdist.runs.code_copy import LIMIT, Choice, CodeResult, prepare
from hpcdist.runs.rundir import Run, RunDirectory


def prepared(
    made: Planned, directory: RunDirectory, runner: Runner, folder: Path | None = None, *, dry: bool = False
) -> CodeResult:
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


def recorded(run: Run, made: Planned, directory: RunDirectory, runner: Runner, *, update: bool) -> CodeResult:
    """Give a new run the code of an earlier one, or with ``update`` what is now in its folder.

    A copy is copied; a job that runs in the folder itself finds what is there now.

    Raises:
        ConfigError: if there is no such code any more, or as `prepared`.
        OSError: when the copy cannot be written.
    """
    found = code_record.read(run.directory)
    wanted = made.experiment.batch.code or "here"
    if not update and wanted == found.source and found.start:
        return copying.copy_code(run.directory, directory)
    folder = Path(found.folder) if found.folder else Path.cwd()
    if not folder.is_dir():
        hint = "make it again, or submit the experiment from another folder"
        raise ConfigError(Problem(f"{folder}, where {run.name} was submitted, is gone", hint=hint))
    code = prepared(made, directory, runner, folder)
    return code if code.folder else code._replace(folder=str(folder))

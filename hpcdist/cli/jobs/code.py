"""The code of a job: what ``submit`` does for it."""

from __future__ import annotations

from pathlib import Path

from hpcdist.code.prepare import LIMIT, Choice, Code, prepare
from hpcdist.errors import located
from hpcdist.experiment.model import Experiment
from hpcdist.host.command import Runner
from hpcdist.loading.planning import Planned
from hpcdist.runs.rundir import RunDirectory


def prepared(made: Planned, directory: RunDirectory, runner: Runner, *, dry: bool = False) -> Code:
    """Record or copy the code of an experiment that is submitted in the current folder.

    Raises:
        ConfigError: as `prepare` does, with the places of the file.
        OSError: when the copy cannot be written.
    """
    locate = made.document.locate
    with located(lambda problem: locate(problem) if problem.path else problem):
        return prepare(choice_of(made.experiment, Path.cwd()), directory.path, runner, dry=dry)


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

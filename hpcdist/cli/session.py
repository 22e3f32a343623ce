"""The plan and the site that the command-line options ask for; warnings and notes are printed."""

from __future__ import annotations

import os
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hpcdist.base import ownership, resources
from hpcdist.base.errors import Place, warning
from hpcdist.base.tree import Document, Map
from hpcdist.cli.messages import print_problems
from hpcdist.experiment.model import Experiment
from hpcdist.loading import machine, recognition
from hpcdist.loading.machine import Here, Machine
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned, located_once, plan_experiment
from hpcdist.loading.preferences import Preferences
from hpcdist.site.model import Site

if TYPE_CHECKING:
    from hpcdist.runs.remotes.machines import Target


def planned(  # noqa: PLR0913 - as verbs need it
    options: ExperimentOptions,
    document: Document | None = None,
    *,
    runs_dir: Path | None = None,
    saves: bool = False,
    awaiting: Awaiting | None = None,
    shown: bool = True,
    find: Here | None = None,
) -> Planned:
    """Return the plan as `plan_experiment` makes it, and print its warnings.

    ``runs_dir``: suspect nodes are excluded by what the runs there recorded, and the runs that it waits for
    are looked up there; ``saves``: their states are queried, and what runs on a remote recorded is fetched.
    ``awaiting``: how else runs are found; ``shown``: the warnings are printed.
    ``find``: as of `machine.choose`.

    Raises:
        HpcdistError: with all errors and the warnings so far.
    """
    if options.remote is not None and not options.site:
        options = options._replace(site=remote_of(options).site)
    awaiting = awaiting or awaiting_in(runs_dir, saves=saves, remote=options.remote or "")
    made = _with_needs(plan_experiment(options, document=document, awaiting=awaiting, find=find))
    if runs_dir and runs_dir.is_dir():
        from hpcdist.checks.nodes import without_suspects  # nothing is known yet in a new folder

        made = without_suspects(made, runs_dir, (options.remote or "") if saves else "")
    if shown:
        print_problems(made.problems)
    return made


def _with_needs(made: Planned) -> Planned:
    """Return the plan with a warning where a search needs a package that is not installed here."""
    search = made.experiment.hptuning
    if not search or not search.bo or find_spec("optuna"):
        return made
    message = "its later trials need the package optuna where `hpcdist sweep advance` is called"
    hint = "it is not installed here: `pip install 'hpcdist[sweeps]'`"
    located = made.document.locate(warning(message, ("hptuning", "bo"), hint))
    return made._replace(problems=(*made.problems, located))


def awaiting_in(runs_dir: Path | None, *, saves: bool, remote: str = "") -> Awaiting:
    """Return how runs for which an experiment waits are found; arguments as of `planned`."""
    return partial(_awaiting, runs_dir, saves, remote)


def _awaiting(
    runs_dir: Path | None, saves: bool, remote: str, experiment: Experiment, site: Site
) -> Experiment:
    if not runs_dir or not experiment.batch.dependency:
        return experiment
    from hpcdist.runs import awaited
    from hpcdist.runs.remotes import here  # with what asks batch systems, rarely needed

    return awaited.resolved(experiment, site, runs_dir, here.services() if saves else None, remote)


def remote_or_here(options: ExperimentOptions) -> Target | None:
    """Return the remote of ``--on``, None without that option.

    Raises:
        ConfigError: as `remote_of`.
    """
    return None if options.remote is None else remote_of(options)


def remote_of(options: ExperimentOptions) -> Target:
    """Return the remote of ``--on``, which is given.

    Raises:
        ConfigError: as `submitting.target`.
    """
    from hpcdist.runs.remotes import machines  # with the user's config, and what ssh needs

    return machines.target(options, Place(f"--on={options.remote}", 0, 0))


def planned_as_submitted(options: ExperimentOptions, document: Document | None = None) -> Planned:
    """Return the plan as `submit` makes it here, and print its warnings; nothing is written.

    Raises:
        HpcdistError: with all errors and the warnings so far.
    """
    return planned(options, document, runs_dir=runs_here())


def print_unparsed(made: Planned) -> None:
    """Print a warning for each command of the experiment that the bash of this machine does not parse."""
    from hpcdist.base.shell import Shell  # starts processes, as planning never does
    from hpcdist.loading import commands

    print_problems(located_once(commands.unparsed(made.experiment, Shell()), made.document))


def print_absent(made: Planned) -> None:
    """Print a warning for a program of the command that is not in this folder, where the job starts."""
    from hpcdist.loading import commands

    print_problems(located_once(commands.absent(made.experiment, Path.cwd()), made.document))


def pipeline_of(options: ExperimentOptions) -> tuple[Document | None, bool]:
    """Return the document of the file, and whether it is a pipeline; None for a command line.

    Raises:
        ConfigError: if it cannot be read.
    """
    if options.words:
        return None, False
    document = recognition.read(options.file)
    has_jobs = isinstance(document.data.get("jobs"), Map) and not options.job
    is_ours = document.data.get("kind") in ("pipeline", "operation") or isinstance(
        document.data.get("run"), Map
    )
    if not is_ours and not has_jobs:
        return document, False
    from hpcdist.studies import pipeline_file  # not needed for other tools' files

    return document, pipeline_file.is_pipeline(document, options.form)


def runs_here() -> Path:
    """Return the runs directory of this folder, as `rundir.choose` does without its imports.

    Raises:
        ConfigError: as there.
    """
    return ownership.expanded(os.environ.get("HPCDIST_RUNS_DIR") or "runs").absolute()


def machine_of(
    option: str | None, site_path: tuple[str, ...], own: Preferences, *, working: bool = False
) -> Machine:
    """Return the site of the option or of this machine, and print warnings about the choice.

    ``working``: choose a launcher that is installed on this machine.

    Raises:
        ConfigError: as `machine.choose` does.
    """
    chosen = machine.choose(option, resources.site_folders(site_path), own)
    chosen = machine.with_working_launcher(chosen, None) if working else chosen
    print_problems(chosen.problems)
    return chosen

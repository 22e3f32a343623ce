"""The plan and the site that the command-line options ask for; warnings and notes are printed."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcdist.cli.messages import print_problems
from hpcdist.documents.tree import Document, Map
from hpcdist.errors import ConfigError, Place, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.host import resources
from hpcdist.loading import machine, recognition
from hpcdist.loading.machine import Machine
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned, plan_experiment
from hpcdist.loading.preferences import Preferences
from hpcdist.site.model import Site

if TYPE_CHECKING:
    from hpcdist.remotes.submitting import Target


def planned(  # noqa: PLR0913 - as verbs need it
    options: ExperimentOptions,
    document: Document | None = None,
    *,
    runs_dir: Path | None = None,
    saves: bool = False,
    awaiting: Awaiting | None = None,
    shown: bool = True,
) -> Planned:
    """Return the plan as `plan_experiment` makes it, and print its warnings.

    ``runs_dir``: by what the runs there recorded, it does without suspect nodes, and waits for those that it
    names; ``saves``: this is written into the ledger, and the batch system is asked for the states of those.
    ``awaiting``: how else runs are found; ``shown``: the warnings are printed.

    Raises:
        HpcdistError: with all errors and the warnings so far.
    """
    if options.remote is not None and not options.site:
        options = options._replace(site=remote_of(options).site)
    awaiting = awaiting or partial(_awaiting, runs_dir, saves, options.remote or "")
    made = plan_experiment(options, document=document, awaiting=awaiting)
    if runs_dir and (runs_dir.is_dir() or made.preferences.config.nodes_ledger):
        from hpcdist.cli import suspects  # nothing is known yet in a new folder

        made = suspects.avoided(made, runs_dir, saves=saves)
    if shown:
        print_problems(made.problems)
    return made


def _awaiting(
    runs_dir: Path | None,
    saves: bool,
    remote: str,
    experiment: Experiment,
    site: Site,
) -> Experiment:
    if not runs_dir or not experiment.batch.dependency:
        return experiment
    from hpcdist.remotes import here  # with what asks batch systems, rarely needed
    from hpcdist.runs import awaited

    return awaited.resolved(experiment, site, runs_dir, here.services() if saves else None, remote)


def remote_of(options: ExperimentOptions) -> Target:
    """Return the remote of ``--on``.

    Raises:
        ConfigError: as `submitting.target`.
    """
    from hpcdist.remotes import submitting  # with the user's config, and what ssh needs

    return submitting.target(options, Place(f"--on={options.remote}", 0, 0))


def planned_as_submitted(options: ExperimentOptions, document: Document | None = None) -> Planned:
    """Return the plan as `submit` makes it here, and print its warnings; nothing is written.

    Raises:
        HpcdistError: with all errors and the warnings so far.
    """
    return planned(options, document, runs_dir=runs_here())


def pipeline_of(options: ExperimentOptions) -> tuple[Document | None, bool]:
    """Return the document of the file, and whether it is a pipeline; None for a command line.

    Raises:
        ConfigError: if it cannot be read, or is a pipeline for a remote.
    """
    if options.words:
        return None, False
    document = recognition.read(options.file)
    run = document.data.get("run")
    if document.data.get("kind") not in ("pipeline", "operation") and not isinstance(run, Map):
        return document, False
    from hpcdist.pipelines import importing  # not needed for other tools' files

    is_pipeline = document.data.get("kind") == "pipeline" or importing.is_dag(document.data)
    if is_pipeline and options.remote is not None:
        message = f"a pipeline is not submitted on {options.remote} over ssh"
        raise ConfigError(Problem(message, hint="submit it there"))
    return document, is_pipeline


def runs_here() -> Path:
    """Return the runs directory of this folder, as `rundir.choose` does without its imports."""
    return Path(os.environ.get("HPCDIST_RUNS_DIR") or "runs").expanduser().absolute()


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

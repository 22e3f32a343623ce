"""Plans by what earlier runs recorded; further jobs of a run, and new runs of its experiment."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcdist.api import remote_runs
from hpcdist.base.tree import Document
from hpcdist.checks.nodes import without_suspects
from hpcdist.experiment.model import Experiment
from hpcdist.loading import planning
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import awaited, this_machine
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import renewed
from hpcdist.runs.submission import SubmitOutput
from hpcdist.searches import replan
from hpcdist.searches import resume as resuming
from hpcdist.site.model import Site


class Made(NamedTuple):
    """A run, and the notes that a verb would have printed."""

    run: Run
    notes: tuple[str, ...]


def planned(
    options: ExperimentOptions, document: Document | None = None, *, runs_dir: Path, saves: bool
) -> Planned:
    """Return the plan by the runs of this directory: those that it waits for, and which nodes are suspect.

    ``saves``: what unfinished runs on its remote recorded of nodes is fetched first.
    """

    def awaiting(experiment: Experiment, site: Site) -> Experiment:
        return awaited.resolved(experiment, site, runs_dir, remote_runs.services(), remote)

    remote = options.remote or ""
    made = planning.plan_experiment(options, document=document, awaiting=awaiting)
    return without_suspects(made, runs_dir, remote if saves else "")


def resubmitted(run: Run, runs_dir: Path, new: replan.NewRun) -> Made:
    """Submit the recorded experiment as a new run.

    Raises:
        HpcdistError: as `hpcdist.Run.restart`.
    """
    services, notes = remote_runs.services(), list[str]()
    plan = partial(planned, runs_dir=runs_dir, saves=True)
    request, made, services = replan.resubmission(run, runs_dir, new, services, plan)
    submitted = this_machine.submit(request, runs_dir, services, SubmitOutput(note=notes.append))
    return Made(submitted, (*map(str, made.problems), *notes))


def resumed(run: Run, changes: replan.Changes) -> Made:
    """Submit a further job of the run, or for the trials of a search that did not complete.

    Raises:
        HpcdistError: as `hpcdist.Run.resume`.
    """
    services, notes = remote_runs.services(voids=True), list[str]()
    now = resuming.resume(renewed(run), services, SubmitOutput(note=notes.append), changes)
    return Made(now, tuple(notes))

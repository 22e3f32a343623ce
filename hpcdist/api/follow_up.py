"""What a run may be followed by: further jobs of its own, or a new run of its experiment."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcdist.api import remote_runs
from hpcdist.checks.nodes import without_suspects
from hpcdist.loading import planning
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import awaited, this_machine
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import renewed
from hpcdist.runs.submission import SubmitOutput
from hpcdist.searches import replan
from hpcdist.searches import resume as resuming


class Made(NamedTuple):
    """A run, and the notes that a verb would have printed."""

    run: Run
    notes: tuple[str, ...]


def resubmitted(run: Run, runs_dir: Path, new: replan.NewRun) -> Made:
    """Submit the recorded experiment as a new run.

    Raises:
        HpcdistError: as `hpcdist.Run.restart`.
    """
    services, notes = remote_runs.services(), list[str]()

    def plan(options: ExperimentOptions) -> Planned:
        remote = run.record.remote
        awaiting = partial(awaited.resolved, runs_dir=runs_dir, services=services, remote=remote)
        made = planning.plan_experiment(options, awaiting=awaiting)
        return without_suspects(made, runs_dir, remote)

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

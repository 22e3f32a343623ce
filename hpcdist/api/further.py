"""What a run may be followed by: further jobs of its own, or a new run of its experiment."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcdist.api import elsewhere
from hpcdist.checks.nodes import without_suspects
from hpcdist.errors import ConfigError, Problem
from hpcdist.loading import planning
from hpcdist.remotes import submitting
from hpcdist.runs import awaited, this_machine
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import renewed
from hpcdist.sweeps import anew, continuing, replanning


class Made(NamedTuple):
    """A run, and what a verb would have printed beside it."""

    run: Run
    notes: tuple[str, ...]


def submitted_anew(run: Run, runs_dir: Path, changes: anew.Changes, *, copies: bool) -> Made:
    """Submit the recorded experiment as a new run; with ``copies`` it begins with the outputs of the old one.

    Raises:
        HpcdistError: as `hpcdist.Run.restart`.
    """
    services, notes = elsewhere.services(), list[str]()
    options = anew.options(run, changes)._replace(remote=run.record.remote or None)
    awaiting = partial(awaited.resolved, runs_dir=runs_dir, services=services, remote=run.record.remote)
    made = planning.plan_experiment(options, awaiting=awaiting)
    made = without_suspects(made, runs_dir, run.record.remote)
    request = anew.Anew(run, options, made, copies, changes.update).request(runs_dir, services.runner)
    if run.record.remote:
        begins_with = run.record.there if copies else ""
        target = submitting.target(options)
        request, services = target.prepare(request, made, runs_dir, services, begins_with)
    new = this_machine.submit(request, runs_dir, services, Output(note=notes.append))
    return Made(new, (*map(str, made.problems), *notes))


def resumed(run: Run, changes: replanning.Changes) -> Made:
    """Submit a further job of the run, or for the trials of a search that did not complete.

    Raises:
        HpcdistError: as `hpcdist.Run.resume`.
    """
    services, notes = elsewhere.services(voids=True), list[str]()
    output, now = Output(note=notes.append), renewed(run)
    if now.directory.plan().trials is None:
        return Made(continuing.go_on(now, services, output, changes), tuple(notes))
    if changes != replanning.NO_CHANGES:
        hint = "submit a new search"
        raise ConfigError(Problem("the trials of a search keep their params and nodes", hint=hint))
    return Made(continuing.resume(now, services, output), tuple(notes))

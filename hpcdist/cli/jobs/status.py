"""``hpcdist status``: show the state of jobs, with one query to the batch system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options
from hpcdist.runs import rundir

if TYPE_CHECKING:
    from hpcdist.runs.rundir import Run
    from hpcdist.runs.states import Report


@click.command("status")
@job_options(several=True, required=False)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool) -> None:
    """Show the state of jobs.

    JOB is the name of a run, its directory or its job id; without JOB, all runs are shown.
    """
    code = 0
    found: Sequence[Run]
    if jobs:
        found, code = runs.find(runs_dir, jobs)
    else:
        found, errors = rundir.list_runs(runs_dir)
        runs.warn_unreadable(errors)
    runs.show_reports(_reports(found) if found else [], runs_dir, json=json)
    ctx.exit(code)


def _reports(found: Sequence[Run]) -> Sequence[Report]:
    from hpcdist.runs import states  # with what asks batch systems, only where there is a job

    return states.status(found, runs.services())

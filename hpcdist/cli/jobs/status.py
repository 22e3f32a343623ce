"""``hpcdist status``: show the state of jobs, with one query to the batch system."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options
from hpcdist.runs import control


@click.command("status")
@job_options(several=True, required=False)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool) -> None:
    """Show the state of jobs.

    JOB is the name of a run, its directory or its job id; without JOB, all runs are shown.
    """
    code = 0
    if jobs:
        found, code = runs.find(runs_dir, jobs)
        reports = control.status(found, runs.services())
    else:
        reports, errors = control.overview(runs_dir, runs.services())
        runs.warn_unreadable(errors)
    runs.show_reports(reports, runs_dir, json=json)
    ctx.exit(code)

"""``hpcdist status``: what is known of jobs, at the cost of one question to the batch system."""

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
    """Tell the state of jobs.

    JOB is a run's name, its directory or the batch system's id; without any, all runs are told.
    """
    code = 0
    if jobs:
        found, code = runs.find(runs_dir, jobs)
        reports = control.status(found, runs.services())
    else:
        reports, errors = control.overview(runs_dir, runs.services())
        runs.tell_unreadable(errors)
    runs.show_reports(reports, runs_dir, json=json)
    ctx.exit(code)

"""``hpcdist cancel``: end jobs."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist import control
from hpcdist.cli import runs, show
from hpcdist.cli.options import job_options
from hpcdist.cli.tell import note


@click.command("cancel")
@job_options(several=True)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool) -> None:
    """End jobs.

    One that is over stays as it is.
    """
    asked, code = runs.find(runs_dir, jobs)
    cancelled = control.cancel(asked, runs.world())
    if json:
        show.as_json([runs.record_of(run) for run in cancelled])
        ctx.exit(code)
    for run in cancelled:
        click.echo(f"{run.name}: asked to end job {run.record.job_id}")
    names = {run.name for run in cancelled}
    for run in asked:
        if run.name not in names:
            note(f"{run.name} {'never became a job' if run.record.job_id is None else 'is over already'}")
    ctx.exit(code)

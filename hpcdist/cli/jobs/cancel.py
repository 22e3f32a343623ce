"""``hpcdist cancel``: cancel jobs."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import job_options
from hpcdist.runs import control
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState


@click.command("cancel")
@job_options(several=True)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool) -> None:
    """Cancel jobs.

    Jobs that have ended are left as they are.
    """
    found, code = runs.find(runs_dir, jobs)
    cancelled = control.cancel(found, runs.services())
    if json:
        show.as_json([runs.record_of(run) for run in cancelled])
        ctx.exit(code)
    for run in cancelled:
        click.echo(f"{run.name}: requested to cancel job {run.record.job_id}")
    names = {run.name for run in cancelled}
    for report in control.status([run for run in found if run.name not in names], runs.services()):
        note(f"{report.run.name} {_why_not(report)}")
    ctx.exit(code)


def _why_not(report: Report) -> str:
    """Return why there was nothing to cancel."""
    record, state = report.run.record, report.status.state
    if record.job_id is None:
        return "was never submitted"
    if state.is_final and state is not JobState.VANISHED:
        return "has already ended"
    return f"has job {record.job_id}, which is unknown to {record.scheduler}: nothing to cancel"

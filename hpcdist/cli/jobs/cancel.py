"""``hpcdist cancel``: end jobs."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options
from hpcdist.cli.tell import note
from hpcdist.runs import control
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState


@click.command("cancel")
@job_options(several=True)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool) -> None:
    """End jobs.

    One that is over stays as it is.
    """
    asked, code = runs.find(runs_dir, jobs)
    cancelled = control.cancel(asked, runs.services())
    if json:
        show.as_json([runs.record_of(run) for run in cancelled])
        ctx.exit(code)
    for run in cancelled:
        click.echo(f"{run.name}: asked to end job {run.record.job_id}")
    names = {run.name for run in cancelled}
    for report in control.status([run for run in asked if run.name not in names], runs.services()):
        note(f"{report.run.name} {_left_alone(report)}")
    ctx.exit(code)


def _left_alone(report: Report) -> str:
    """Return why there was nothing to end."""
    record, state = report.run.record, report.status.state
    if record.job_id is None:
        return "never became a job"
    if state.is_final and state is not JobState.VANISHED:
        return "is over already"
    return f"has job {record.job_id}, which {record.scheduler} does not know: there was nothing to cancel"

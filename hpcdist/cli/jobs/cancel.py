"""``hpcdist cancel``: cancel jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcdist.base.errors import comma_list
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import job_options
from hpcdist.runs import cancelling, job_states
from hpcdist.runs.job_states import Report
from hpcdist.schedulers.job import JobState

if TYPE_CHECKING:
    from hpcdist.runs.rundir import Run


@click.command("cancel")
@job_options(several=True)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool) -> None:
    """Cancel jobs.

    RUN/3 is trial 3 of a search, or element 3 of an array, alone. Jobs that have ended are left as they are.
    """
    named, code = runs.find_elements(runs_dir, jobs)
    found = [run for run, element in named if not element]
    cancelled = cancelling.cancel(found, runs.services())
    parts = _cancel_elements([(run, element) for run, element in named if element])
    if json:
        show.as_json([*map(runs.record_of, cancelled), *parts])
        ctx.exit(code)
    for run in cancelled:
        click.echo(f"{run.name}: requested to cancel job {comma_list(_alive(run))}")
    for part in parts:
        click.echo(f"{part['name']}: requested to cancel it, alone of its job")
    names = {run.name for run in cancelled}
    for report in job_states.status([run for run in found if run.name not in names], runs.services()):
        note(f"{report.run.name} {_why_not(report)}")
    ctx.exit(code)


def _alive(run: Run) -> list[str]:
    """Return the ids of its jobs that had not ended; of several the first may have, long ago."""
    alive = [job for job in run.jobs if job.job and job.record.ended is None]
    return [job.record.job_id or "" for job in alive or [run]]


def _cancel_elements(named: Sequence[tuple[Run, str]]) -> list[dict[str, Any]]:
    """Cancel these elements; return those that the batch system was asked to cancel, for JSON."""
    if not named:
        return []
    from hpcdist.cli.jobs import element as one  # with what reads trials
    from hpcdist.searches import trials

    services, cancelled = runs.services(), []
    reports = {
        report.run.directory: report for report in job_states.status([run for run, _ in named], services)
    }
    for run, element in named:
        found = one.find(reports[run.directory], element, services)
        if trials.cancel(found, services):
            cancelled.append(one.state_of(found))
        else:
            note(f"{found.name} has already ended: it is {found.trial.state}")
    return cancelled


def _why_not(report: Report) -> str:
    """Return why there was nothing to cancel."""
    record, state = report.run.record, report.status.state
    if record.job_id is None:
        return "was never submitted"
    if state.is_final and state is not JobState.VANISHED:
        return "has already ended"
    return f"has job {record.job_id}, which is unknown to {record.scheduler}: nothing to cancel"

"""``hpcdist describe``: everything that is known of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options
from hpcdist.cli.tell import one_line
from hpcdist.runs import control, logs, rundir
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.states import Report


@click.command("describe")
@job_options(several=False)
def command(jobs: str, runs_dir: Path, json: bool) -> None:
    """Tell everything about one job."""
    [report] = control.status([rundir.find(runs_dir, jobs)], runs.services())
    said = _described(report)
    if json:
        show.as_json(said)
        return
    events = said.pop("events")
    show.table(
        (),
        [(key.replace("_", " "), _text(value)) for key, value in said.items() if value not in (None, "", [])],
    )
    if events:
        click.echo()
        show.table(("event", "job", "at", "value"), [[*event.values()] for event in events])


def _described(report: Report) -> dict[str, Any]:
    directory = report.run.directory
    events = [
        {"event": event.what, "job_id": event.job_id, "at": rundir.timestamp(event.at), "value": event.value}
        for event in directory.events()
    ]
    said = runs.report_of(report) | {"message": report.run.record.message} | _labels(directory)
    return said | {"logs": [str(file) for file in logs.files(directory)], "events": events}


def _labels(directory: RunDirectory) -> dict[str, Any]:
    """Return what the user wrote to know the run by; it is kept in its plan."""
    plan = directory.plan()
    return {"description": plan.description, "tags": [*plan.tags]}


def _text(value: object) -> str:
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))

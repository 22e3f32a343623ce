"""``hpcdist describe``: the details of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import code, runs
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import job_options
from hpcdist.runs import logs, rundir, states
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.states import Report


@click.command("describe")
@job_options(several=False)
def command(jobs: str, runs_dir: Path, json: bool) -> None:
    """Show the details of a job."""
    [report] = states.status([rundir.find(runs_dir, jobs)], runs.services())
    details = _details(report)
    if json:
        show.as_json(details)
        return
    events = details.pop("events")
    show.table(
        (),
        [
            (key.replace("_", " "), _text(value))
            for key, value in details.items()
            if value not in (None, "", [])
        ],
    )
    if events:
        click.echo()
        show.table(("event", "job", "at", "value"), [[*event.values()] for event in events])


def _details(report: Report) -> dict[str, Any]:
    directory = report.run.directory
    events = [
        {"event": event.what, "job_id": event.job_id, "at": rundir.timestamp(event.at), "value": event.value}
        for event in directory.events()
    ]
    status = runs.report_of(report) | {"message": report.run.record.message} | _labels(directory)
    status |= code.details(directory)
    return status | {"logs": [str(file) for file in logs.files(directory)], "events": events}


def _labels(directory: RunDirectory) -> dict[str, Any]:
    """Return the user's description and tags, which are stored in the plan."""
    plan = directory.plan()
    return {"description": plan.description, "tags": [*plan.tags]}


def _text(value: object) -> str:
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))

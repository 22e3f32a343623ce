"""``hpcdist describe``: the details of one run."""

from __future__ import annotations

import json as json_texts
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import job_options
from hpcdist.code.prepare import RECORD
from hpcdist.runs import logs, rundir, states
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.states import Report

_MAX_RECORD: Final = 1 << 24
_SHOWN: Final = {"source": "code", "commit": "commit", "branch": "branch", "remote": "remote"}


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
    status |= _code(directory)
    return status | {"logs": [str(file) for file in logs.files(directory)], "events": events}


def _labels(directory: RunDirectory) -> dict[str, Any]:
    """Return the user's description and tags, which are stored in the plan."""
    plan = directory.plan()
    return {"description": plan.description, "tags": [*plan.tags]}


def _code(directory: RunDirectory) -> dict[str, Any]:
    """Return what the record of the code says; null where it does not."""
    try:
        data = json_texts.loads(directory.read(RECORD, _MAX_RECORD))
    except (OSError, ValueError, RecursionError):
        data = None
    found = data if isinstance(data, dict) else {}
    texts = {name: found.get(key) for key, name in _SHOWN.items()}
    dirty = found.get("dirty")
    return {
        **{name: value if isinstance(value, str) else None for name, value in texts.items()},
        "dirty": dirty if isinstance(dirty, bool) else None,
    }


def _text(value: object) -> str:
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))

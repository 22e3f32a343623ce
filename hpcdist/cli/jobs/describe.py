"""``hpcdist describe``: the details of one run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs, spans
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import job_options
from hpcdist.runs import accounting, attempts, code_record, logs, rundir, states
from hpcdist.runs.attempts import Attempt
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.states import Report
from hpcdist.schedulers import hostlist

_HEADS: Final = (
    "attempt",
    "job",
    "state",
    "exit",
    "started",
    "queued",
    "elapsed",
    "GPU-hours",
    "memory",
    "hosts",
)


@click.command("describe")
@job_options(several=False)
def command(jobs: str, runs_dir: Path, json: bool) -> None:
    """Show the details of a job."""
    services = runs.services()
    [report] = states.status([rundir.find(runs_dir, jobs)], services)
    usage = accounting.query(report.run, services)
    details, found = _details(report), attempts.read(report.run, time.time(), report.status, usage)
    if json:
        show.as_json(details | {"attempts": [_attempt(attempt) for attempt in found]})
        return
    events = details.pop("events")
    show.table(
        (),
        [
            (key.replace("_", " "), _text(value))
            for key, value in details.items()
            if value not in (None, "", [], {})
        ],
    )
    if found:
        click.echo()
        show.table(_HEADS, map(_row, found))
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
    """Return the user's description, tags and params, which are stored in the plan."""
    plan = directory.plan()
    return {"description": plan.description, "tags": [*plan.tags], "params": {**plan.params}}


def _code(directory: RunDirectory) -> dict[str, Any]:
    """Return what the record of the code says; null where it does not."""
    found = code_record.read(directory)
    return {
        "code": found.source,
        "commit": found.commit,
        "branch": found.branch,
        "remote": found.remote,
        "dirty": found.dirty,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt for JSON; null is unknown."""
    times = {"queued_at": attempt.queued, "started_at": attempt.started, "ended_at": attempt.ended}
    return {
        "job_id": attempt.job,
        "attempt": attempt.name,
        "state": attempt.state,
        **{name: None if at is None else rundir.timestamp(at) for name, at in times.items()},
        "queue_seconds": attempt.waited,
        "elapsed_seconds": attempt.elapsed,
        "hosts": attempt.hosts,
        "exit_code": attempt.exit_code,
        "gpu_hours": None if attempt.gpu_seconds is None else attempt.gpu_seconds / 3600,
        "max_memory": attempt.max_memory,
    }


def _row(attempt: Attempt) -> tuple[str, ...]:
    """Return the cells of an attempt, under ``_HEADS``."""
    hours = None if attempt.gpu_seconds is None else f"{attempt.gpu_seconds / 3600:.2f}"
    memory = None if attempt.max_memory is None else spans.size(attempt.max_memory)
    times = [None if at is None else spans.clock(at) for at in (attempt.waited, attempt.elapsed)]
    started = None if attempt.started is None else rundir.timestamp(attempt.started)
    cells = (
        attempt.exit_code,
        started,
        *times,
        hours,
        memory,
        hostlist.compress(attempt.hosts or ()) or None,
    )
    texts = ("-" if cell is None else str(cell) for cell in cells)
    return (attempt.name, attempt.job, attempt.state, *texts)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return one_line(" ".join(f"{name}={each}" for name, each in value.items()))
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))

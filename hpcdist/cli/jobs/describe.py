"""``hpcdist describe``: the details of one run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import attempt_table, findings, runs, used
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import job_options
from hpcdist.nodes.findings import of_attempts
from hpcdist.remotes import here
from hpcdist.runs import accounting, attempts, code_record, finding, logs, rundir, states
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.state import Attempt
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState, split_id
from hpcdist.tracking import reached
from hpcdist.usage.used import of_run


@click.command("describe")
@job_options(several=False)
def command(jobs: str, runs_dir: Path, json: bool) -> None:
    """Show the details of a job.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array. Of a pipeline, the graph of its operations is shown.
    """
    if finding.pipeline_directory(runs_dir, jobs):
        from hpcdist.cli.jobs import pipeline  # it draws the graph

        if stored := pipeline.stored_of(runs_dir, (jobs,)):
            pipeline.show_graph(stored, json=json, whole=True)
            return
    services = runs.services()
    run, element = finding.find_element(runs_dir, jobs)
    [report] = states.status([run], services)
    details, found = _of_element(report, element, services) if element else _of_run(report, services)
    lines = [*zip(found, reached.read(run.directory, found), strict=True)]
    use = of_run(run.directory, found, time.time())
    begun = [Numbered(far.number or 0, one.job, one.name) for one, far in lines if one.started is not None]
    nodes = of_attempts(run.directory, begun, use.nodes)
    if json:
        data = {"attempts": attempt_table.as_data(lines)} | used.of_used(use) | findings.of_findings(nodes)
        show.as_json(details | data)
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
    if lines:
        click.echo()
        attempt_table.print_lines(lines)
    used.print_used(use)
    findings.print_findings(nodes, found)
    if events:
        click.echo()
        show.table(("event", "job", "at", "value"), [[*event.values()] for event in events])


def _of_run(report: Report, services: Services) -> tuple[dict[str, Any], Sequence[Attempt]]:
    usage = partial(accounting.query, services=services)
    return _details(report), attempts.read(report, time.time(), usage)


def _of_element(report: Report, element: str, services: Services) -> tuple[dict[str, Any], Sequence[Attempt]]:
    """Return the details of an element: what is its own, and of the run what it has from it."""
    from hpcdist.cli.jobs import element as one  # with what reads trials
    from hpcdist.tracking import comparison

    found = one.find(report, element, services)
    run, plan = report.run, report.run.directory.plan()
    recorded = {item.name: item for item in comparison.tracked(run, plan)}.get(found.name)
    whole = _details(report)
    own = {
        "params": {**(recorded.params if recorded else found.trial.params)},
        "metrics": {**recorded.metrics} if recorded else {},
        "logs": [str(file) for file in logs.files(run.directory, element)],
        "outputs": str(run.directory.outputs / element),
        "events": [event for event in whole["events"] if split_id(event["job_id"])[1] == element],
    }
    return {**one.state_of(found), **{name: whole[name] for name in _SHARED}, **own}, found.attempts


_SHARED: Final = ("description", "tags", "code", "commit", "branch", "remote", "dirty")


def _details(report: Report) -> dict[str, Any]:
    directory = report.run.directory
    events = [
        {"event": event.what, "job_id": event.job_id, "at": rundir.timestamp(event.at), "value": event.value}
        for event in directory.events()
    ]
    status = runs.report_of(report) | {"message": report.run.record.message} | _labels(directory)
    record = report.run.record
    found = here.address_of(report.run) if report.status.state is JobState.RUNNING else None
    status |= {name: getattr(found, name, None) for name in ("url", "tunnel", "token")}
    status |= {"restart_of": record.restart_of or None, "copy_of": record.copy_of or None} | _code(directory)
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


def _text(value: object) -> str:
    if isinstance(value, dict):
        return one_line(" ".join(f"{name}={each}" for name, each in value.items()))
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))

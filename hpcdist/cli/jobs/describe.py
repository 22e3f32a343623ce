"""``hpcdist describe``: the details of one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.checks.usage import hours, hours_text, of_run
from hpcdist.cli import show
from hpcdist.cli.jobs import runs, used
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import job_options
from hpcdist.runs import accounting, attempts, code_record, finding, job_states, logs, rundir
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.failures import Failure, first_failure
from hpcdist.runs.job_states import Report
from hpcdist.runs.remotes import here
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.services import Services
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.job import JobState, split_id
from hpcdist.tracking import files
from hpcdist.tracking.files import AttemptProgress

# --- The attempts of a run as `describe` shows them: a line each, and for JSON

Line = tuple[Attempt, AttemptProgress]
_Cell = Callable[[Attempt, AttemptProgress], object]

_COLUMNS: Final[dict[str, _Cell]] = {
    "attempt": lambda attempt, progress: attempt.name if progress.number is None else progress.number,
    "job": lambda attempt, _: attempt.job,
    "state": lambda attempt, _: attempt.state,
    "exit": lambda attempt, _: attempt.exit_code,
    "why": lambda attempt, _: attempt.why or None,
    "started": lambda attempt, _: _known(attempt.started, rundir.timestamp),
    "ended": lambda attempt, _: _known(attempt.ended, rundir.timestamp),
    "queued": lambda attempt, _: _known(attempt.waited, show.clock),
    "elapsed": lambda attempt, _: _known(attempt.elapsed, show.clock),
    "GPU-hours": lambda attempt, _: hours_text(attempt.gpu_seconds),
    "memory": lambda attempt, _: _known(attempt.max_memory, show.size),
    "step": lambda _, progress: _known(progress.step, _count),
    "lost": lambda _, progress: _lost(progress),
    "hosts": lambda attempt, _: hostlist.compress(attempt.hosts or ()) or None,
}
_SOMETIMES: Final = frozenset({"why", "step", "lost"})
"""Columns that are left out where no attempt has a value."""


def print_lines(lines: Sequence[Line]) -> None:
    """Print the attempts as a table; what is not known is ``-``."""
    rows = [[cell(*line) for cell in _COLUMNS.values()] for line in lines]
    used = [
        place
        for place, head in enumerate(_COLUMNS)
        if head not in _SOMETIMES or any(row[place] is not None for row in rows)
    ]
    heads = [*_COLUMNS]
    show.table([heads[place] for place in used], ([_text(row[place]) for place in used] for row in rows))


def as_data(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Return the attempts for JSON; null is unknown."""
    return [_data(*line) for line in lines]


def _data(attempt: Attempt, progress: AttemptProgress) -> dict[str, Any]:
    times = {"queued_at": attempt.queued, "started_at": attempt.started, "ended_at": attempt.ended}
    return {
        "job_id": attempt.job,
        "attempt": attempt.name,
        "state": attempt.state,
        **{name: _known(at, rundir.timestamp) for name, at in times.items()},
        "queue_seconds": attempt.waited,
        "elapsed_seconds": attempt.elapsed,
        "hosts": attempt.hosts,
        "exit_code": attempt.exit_code,
        "why": attempt.why or None,
        "gpu_hours": hours(attempt.gpu_seconds),
        "max_memory": attempt.max_memory,
        **progress._asdict(),
    }


def _known(value: Any, form: Callable[[Any], str]) -> str | None:
    return None if value is None else form(value)


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _count(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def _lost(progress: AttemptProgress) -> str | None:
    """Return the work that was lost: in steps, or else the time since the last checkpoint."""
    if progress.lost_steps is not None:
        return f"{_count(progress.lost_steps)} step{'s' * (progress.lost_steps != 1)}"
    return _known(progress.lost_seconds, show.clock)


# --- Which task failed first, for JSON


def _of_failure(failure: Failure) -> dict[str, Any]:
    nodes = [
        {"host": node.host, "signs": [sign._asdict() for sign in node.signs]}
        for node in failure.nodes
        if node.signs
    ]
    others = [end._asdict() for end in failure.others]
    return {**failure._asdict(), "others": others, "nodes": nodes, "text": failure.text}


# --- ``hpcdist describe``


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
    [report] = job_states.status([run], services)
    details, found = _of_element(report, element, services) if element else _of_run(report, services)
    lines = [*zip(found, files.progress(run.directory, found), strict=True)]
    use = of_run(run.directory, found, time.time())
    begun = [Numbered(far.number or 0, one.job, one.name) for one, far in lines if one.started is not None]
    failure = first_failure(run.directory, begun)
    if json:
        data = {"attempts": as_data(lines)} | used.of_used(use)
        show.as_json(details | data | {"first_failure": failure and _of_failure(failure)})
        return
    events = details.pop("events")
    show.table(
        (),
        [
            (key.replace("_", " "), _describe_text(value))
            for key, value in details.items()
            if value not in (None, "", [], {})
        ],
    )
    if lines:
        click.echo()
        print_lines(lines)
    used.print_used(use)
    if failure:
        click.echo(f"\nfirst failure: {failure.text}")
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
    return {"code": found.source} | {name: getattr(found, name) for name in _SHARED[-4:]}


def _describe_text(value: object) -> str:
    if isinstance(value, dict):
        return one_line(" ".join(f"{name}={each}" for name, each in value.items()))
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))

"""The progress of a search, as text and as a bar."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from hpcdist.cli.jobs import spans
from hpcdist.cli.messages import one_line, printable
from hpcdist.errors import comma_list
from hpcdist.runs import elements, standing
from hpcdist.runs.finding import elements_of
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.sweeps import looking
from hpcdist.sweeps.looking import Look

if TYPE_CHECKING:
    from rich.progress import Progress


def summary(shown: Look) -> str:
    """Return how far a search is, as one line."""
    reached, jobs = shown.progress, len(shown.report.jobs)
    counts = comma_list([f"{count} {state}" for state, count in reached.counts.items()])
    parts = [f"{_number(shown)} trials{f' in {jobs} jobs' if jobs > 1 else ''}: {counts}"]
    if shown.generation:
        parts.append(f"generation {shown.generation.number} of at most {shown.generation.generations}")
    if reached.gpu_hours:
        parts.append(f"{reached.gpu_hours:.2f} GPU-hours so far")
    if reached.left is not None:
        parts.append(f"about {spans.clock(reached.left)} left")
    if shown.waits_for:
        parts.append(f"waits for {one_line(comma_list([*shown.waits_for]))}")
    if standing.awaited(shown.report):
        parts.append(standing.go_on(shown.report.run))
    return "; ".join([*parts, *map(one_line, shown.remarks)])


def _number(shown: Look) -> str:
    count = str(shown.progress.trials)
    return f"{count} of at most {shown.generation.trials}" if shown.generation else count


def as_data(shown: Look) -> dict[str, Any]:
    """Return how far a search is for JSON, without its trials."""
    reached = shown.progress
    return {
        "run": shown.report.run.name,
        "number": reached.trials,
        "most_trials": shown.generation.trials if shown.generation else reached.trials,
        "generation": shown.generation and shown.generation.number,
        "generations": shown.generation and shown.generation.generations,
        "states": dict(reached.counts),
        "gpu_hours": reached.gpu_hours,
        "seconds_left": reached.left,
        "waits_for": [*shown.waits_for],
        "remarks": [*shown.remarks],
        "jobs": [
            {
                "job_id": job.run.record.job_id,
                "trials": elements.text_of(elements_of(job.run).outside(())),
                "state": job.status.state.value,
                "reason": job.status.reason,
            }
            for job in shown.report.jobs
        ],
    }


def follow(run: Run, services: Services, file: TextIO | None = None) -> Look:
    """Show a search until its end: with a bar on a terminal, elsewhere by a line a change of its trials."""
    out = file or sys.stdout
    return _with_bar(run, services, out) if out.isatty() else _by_lines(run, services, out)


def _by_lines(run: Run, services: Services, out: TextIO) -> Look:
    last: list[object] = [None]

    def show(shown: Look) -> None:
        state = (shown.progress.counts, shown.waits_for)
        if state != last[0]:
            click.echo(f"{run.name}: {summary(shown)}", file=out)
            out.flush()
        last[0] = state

    return looking.follow(run, services, show)


def _with_bar(run: Run, services: Services, out: TextIO) -> Look:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    rest = Column(ratio=1, overflow="fold")  # of the line, so that the others keep their width
    text = TextColumn("{task.fields[text]}", markup=False, table_column=rest)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(), text)
    with Progress(*columns, console=Console(file=out), expand=True) as bar:
        task = bar.add_task(printable(run.name), total=None, text="")
        return looking.follow(run, services, lambda shown: _update(bar, task, shown))


def _update(bar: Progress, task: Any, shown: Look) -> None:
    bar.update(task, total=shown.progress.trials, completed=shown.ended, text=summary(shown))
    bar.refresh()

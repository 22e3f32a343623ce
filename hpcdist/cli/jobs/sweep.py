"""``hpcdist sweep``: the trials of a search."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs, spans
from hpcdist.cli.jobs.comparing import as_data, print_table, text_of
from hpcdist.cli.options import job_options
from hpcdist.errors import comma_list
from hpcdist.runs import accounting, rundir, states
from hpcdist.runs.rundir import Run
from hpcdist.sweeps import trials
from hpcdist.sweeps.trials import Progress, Trial
from hpcdist.tracking import comparison

_HEADS: Final = ("trial", "state", "exit", "elapsed", "GPU-hours")


@click.group("sweep")
def command() -> None:
    """Show how far a search is, and which of its trials are best."""


@command.command("status")
@job_options(several=False)
def show_status(jobs: str, runs_dir: Path, json: bool) -> None:
    """Show how far the trials of a search are.

    JOB is the name of a run, its directory or its job id.
    """
    run = rundir.find(runs_dir, jobs)
    found = _trials(run)
    reached = trials.progress(found, _at_once(run))
    if json:
        show.as_json(_progress(run, reached) | {"trials": [_record(trial) for trial in found]})
        return
    click.echo(f"{run.name}: {_summary(reached)}")
    names = comparison.names(trial.params for trial in found)
    show.table((*_HEADS, *names), (_row(trial, names) for trial in found))


@command.command("best")
@job_options(several=False)
@click.option("--sort", "by", metavar="NAME", help="The metric; -NAME: highest first. Default: the search's.")
@click.option("--top", "most", metavar="N", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many trials.")  # fmt: skip
def show_best(jobs: str, runs_dir: Path, json: bool, by: str | None, most: int) -> None:
    """Show the best trials of a search, by the last value of a metric.

    JOB is the name of a run, its directory or its job id.
    """
    run = rundir.find(runs_dir, jobs)
    plan = run.directory.plan()
    order = by or plan.order
    if order is None:
        raise click.UsageError("The search has no metric. Give one: --sort -accuracy, or --sort loss.")
    found = trials.best(comparison.tracked(run, plan), order, most)
    params = comparison.names(item.params for item in found)
    if json:
        show.as_json([as_data(item, params) for item in found])
    else:
        print_table(found, params, ("trial",), lambda item: (item.name,), runs_dir)


def _trials(run: Run) -> list[Trial]:
    """Return the trials with their states, by one query for the job and one of its accounting."""
    services = runs.services()
    [report] = states.status([run], services)
    return trials.trials(report, accounting.query(report.run, services), time.time())


def _at_once(run: Run) -> int | None:
    array = run.directory.plan().array
    return array.at_once if array else None


def _summary(reached: Progress) -> str:
    counts = comma_list([f"{count} {state}" for state, count in reached.counts.items()])
    parts = [f"{reached.trials} trials: {counts}"]
    if reached.gpu_hours:
        parts.append(f"{reached.gpu_hours:.2f} GPU-hours so far")
    if reached.left is not None:
        parts.append(f"about {spans.clock(reached.left)} left")
    return "; ".join(parts)


def _progress(run: Run, reached: Progress) -> dict[str, Any]:
    return {
        "run": run.name,
        "number": reached.trials,
        "states": dict(reached.counts),
        "gpu_hours": reached.gpu_hours,
        "seconds_left": reached.left,
    }


def _record(trial: Trial) -> dict[str, Any]:
    """Return a trial for JSON; null is unknown."""
    attempt = trial.attempt
    return {
        "trial": trial.number,
        "params": dict(trial.params),
        "state": trial.state,
        "exit_code": attempt and attempt.exit_code,
        "elapsed_seconds": attempt and attempt.elapsed,
        "gpu_hours": None if trial.gpu_seconds is None else trial.gpu_seconds / 3600,
    }


def _row(trial: Trial, names: list[str]) -> tuple[str, ...]:
    attempt = trial.attempt
    elapsed = attempt.elapsed if attempt else None
    return (
        str(trial.number),
        trial.state,
        "-" if attempt is None or attempt.exit_code is None else str(attempt.exit_code),
        "-" if elapsed is None else spans.clock(elapsed),
        "-" if not trial.gpu_seconds else f"{trial.gpu_seconds / 3600:.2f}",
        *(text_of(trial.params, name) for name in names),
    )

"""Shared by the verbs that show several runs beside each other: their options, and the table."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from hpcdist.cli import completion, show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import json_option, runs_dir_option
from hpcdist.errors import warning
from hpcdist.runs import finding
from hpcdist.runs.rundir import Run
from hpcdist.tracking import comparison, trial_params
from hpcdist.tracking.comparison import Tracked

Verb = Callable[..., None]


def options(verb: Verb) -> Verb:
    """Add runs and patterns of their names, --sort, --runs-dir and --json to a verb."""
    sort = click.option(
        "--sort", "by", metavar="NAME", help="Sort by a metric or param; -NAME: highest first."
    )
    job = click.argument("jobs", metavar="[JOB...]", nargs=-1, shell_complete=completion.runs)
    return job(sort(json_option(runs_dir_option(verb))))


def runs_named(runs_dir: Path, jobs: Sequence[str]) -> Iterator[Run]:
    """Yield the named runs, each once, in the order of their names; all without any.

    Raises:
        ConfigError: if one is not there.
    """
    there, errors = finding.list_runs(runs_dir)
    if not jobs:
        runs.warn_unreadable(errors)
        runs.pull(there)
        yield from there
        return
    found: dict[Path, Run] = {}
    for job in jobs:
        matching = [run for run in there if fnmatch.fnmatchcase(run.name, job)]
        matching = matching or finding.of_pipeline(runs_dir, job) or [finding.find(runs_dir, job)]
        found |= {run.directory.path: run for run in matching}
    runs.pull(found.values())
    yield from found.values()


def tracked(runs_dir: Path, jobs: Sequence[str]) -> list[Tracked]:
    """Return what these runs recorded, all without any; warn once of what could not be read.

    Raises:
        ConfigError: if one is not there.
    """
    found = [
        item for run in runs_named(runs_dir, jobs) for item in comparison.tracked(run, run.directory.plan())
    ]
    print_problems(map(warning, dict.fromkeys(text for item in found for text in item.unread)))
    return found


def print_table(
    found: Sequence[Tracked],
    params: Sequence[str],
    heads: Sequence[str],
    cells: Callable[[Tracked], tuple[str, ...]],
    runs_dir: Path,
) -> None:
    """Print a line for each: ``cells`` under ``heads``, then these params and all metrics."""
    if not found:
        note(f"nothing was found in {runs_dir}")
        return
    metrics = trial_params.names(item.metrics for item in found)
    rows = [
        (
            *cells(item),
            *(show.value(item.params, name) for name in params),
            *(show.value(item.metrics, name) for name in metrics),
        )
        for item in found
    ]
    show.table((*heads, *params, *metrics), rows)


def as_data(item: Tracked, params: Sequence[str]) -> dict[str, Any]:
    """Return one for JSON, with these params."""
    return {
        "run": item.name,
        "params": {name: value for name, value in item.params.items() if name in params},
        "tags": [*item.tags],
        "metrics": {name: show.number(value) for name, value in item.metrics.items()},
    }

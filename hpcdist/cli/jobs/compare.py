"""``hpcdist compare``: a table of the params and metrics of runs; its parts serve other verbs."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from hpcdist.base.errors import warning
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.runs import finding
from hpcdist.runs.rundir import Run
from hpcdist.tracking import comparison, trial_params
from hpcdist.tracking.comparison import Tracked

sort_option = click.option(
    "--sort", "by", metavar="NAME", help="Sort by a metric or param; -NAME: highest first."
)


@click.command("compare")
@job_options(several=True, required=False)
@sort_option
@click.option("--only-differing", is_flag=True, help="Leave out params that are the same in all.")
def command(jobs: tuple[str, ...], by: str | None, runs_dir: Path, json: bool, only_differing: bool) -> None:
    """Compare the params and last metrics of runs.

    JOB is the name of a run or a pattern such as 'train-*', its directory or its job id; without JOB, all
    runs are compared.
    """
    found = tracked(runs_dir, jobs)
    found = comparison.in_order(found, by) if by else found
    params = (
        comparison.differing(found) if only_differing else trial_params.names(item.params for item in found)
    )
    if json:
        show.as_json([as_data(item, params) for item in found])
    else:
        print_table(found, params, ("run",), lambda item: (item.name,), runs_dir)


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

"""``hpcdist compare``: the params and metrics of runs beside each other."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs.comparing import as_data, options, print_table, tracked
from hpcdist.tracking import comparison, trial_params


@click.command("compare")
@options
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

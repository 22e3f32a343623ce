"""``hpcdist rm``: remove runs whose jobs have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs, spans
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.errors import HpcdistError
from hpcdist.runs import finding, removing
from hpcdist.runs.rundir import Run
from hpcdist.runs.states import status
from hpcdist.studies import pipeline_runs

Kept = tuple[Run, HpcdistError]
"""A run that is not removed, and why."""


@click.command("rm")
@job_options(several=True)
@click.option("--force", is_flag=True, help="Also remove runs whose end is unknown; never a live job's.")
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool, force: bool) -> None:
    """Remove runs whose jobs have ended.

    All their files are removed, outputs and models too. JOB is the name of a run, its directory or its job
    id; of a pipeline, runs are kept while another of its operations has not ended. The batch system is
    queried as `status` does.
    """
    whole = {job: where for job in jobs if (where := finding.pipeline_directory(runs_dir, job))}
    with_runs = [job for job in jobs if job not in whole or finding.of_pipeline(runs_dir, job)]
    found, code = runs.find(runs_dir, with_runs) if with_runs else ([], 0)
    over, kept = may_be_removed(found, force=force)
    removed, failed = remove(over)
    kept += failed
    if json:
        show.as_json(as_data(removed, kept))
    for run, size in () if json else removed:
        click.echo(f"{run.name}: removed, {spans.size(size)}")
    for name in pipeline_runs.remove_empty([run for run, _ in removed], whole.values()):
        note(f"{name}: removed, a pipeline without runs")
    print_problems(problem for _, error in kept for problem in error.problems)
    ctx.exit(max([code, *(error.exit_code for _, error in kept)]))


def may_be_removed(found: Sequence[Run], *, force: bool = False) -> tuple[list[Run], list[Kept]]:
    """Return the runs whose jobs are over, and the others with the reasons."""
    services = runs.services()
    over: list[Run] = []
    kept: list[Kept] = []
    in_use = pipeline_runs.runs_in_use(found, services, force=force)
    for report in status(found, services):
        try:
            removing.check(report, services, force=force)
            if report.run.directory in in_use:
                raise in_use[report.run.directory]
        except HpcdistError as error:
            kept.append((report.run, error))
        else:
            over.append(report.run)
    return over, kept


def remove(over: Iterable[Run]) -> tuple[list[tuple[Run, int]], list[Kept]]:
    """Remove these; return what was removed with the bytes that it frees, and the others with the reasons."""
    removed: list[tuple[Run, int]] = []
    kept: list[Kept] = []
    for run in over:
        size = removing.size(run.directory)
        try:
            removing.remove(run)
        except HpcdistError as error:
            kept.append((run, error))
        else:
            removed.append((run, size))
    return removed, kept


def as_data(removed: Iterable[tuple[Run, int]], kept: Iterable[Kept]) -> list[dict[str, Any]]:
    """Return runs for JSON: what was removed with its size, the others with the reason."""
    return [
        *(_data(run) | {"removed": True, "bytes": size, "reason": ""} for run, size in removed),
        *(_data(run) | {"removed": False, "bytes": 0, "reason": str(error)} for run, error in kept),
    ]


def _data(run: Run) -> dict[str, Any]:
    return {"name": run.name, "directory": str(run.directory.path)}

"""``hpcdist rm``: remove runs whose jobs have ended, those that are named or all old ones."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from hpcdist.base.errors import ConfigError, HpcdistError, Problem
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.runs import finding, removing
from hpcdist.runs.job_states import status
from hpcdist.runs.rundir import Run
from hpcdist.studies import pipeline_runs

Kept = tuple[Run, HpcdistError]
"""A run that is not removed, and why."""


@click.command("rm")
@job_options(several=True, required=False)
@click.option("--force", is_flag=True, help="Also remove runs whose end is unknown; never a live job's.")
@click.option(
    "--older", metavar="TIME",
    help="Remove all runs last used before: a span such as 30d, or a day such as 2026-11-01.",
)  # fmt: skip
@click.option("--models", is_flag=True, help="With --older: also remove runs that recorded a model.")
@click.option("-y", "--yes", is_flag=True, help="With --older: do not ask.")
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool, force: bool, older: str | None,
    models: bool, yes: bool,
) -> None:  # fmt: skip
    """Remove runs whose jobs have ended.

    All their files are removed, outputs and models too. JOB is the name of a run, its directory or its job
    id; of a pipeline, runs are kept while another of its operations has not ended. The batch system is
    queried as `status` does.

    --older shows the runs that it would remove, and asks. A run was last used when it was submitted, or its
    job wrote to the event log. Runs that recorded a model, or whose end is unknown, are kept.
    """
    if bool(jobs) == bool(older):
        raise click.UsageError("Name the runs to remove, or give --older TIME.")
    if older and json and not yes:
        raise click.UsageError("--json does not ask; use it with --yes.")
    if older:
        kept, code = _remove_old(runs_dir, older, models=models, yes=yes, force=force, json=json), 0
    else:
        kept, code = _remove_named(runs_dir, jobs, force=force, json=json)
    print_problems(problem for _, error in kept for problem in error.problems)
    ctx.exit(max([code, *(error.exit_code for _, error in kept)]))


def _remove_named(runs_dir: Path, jobs: Sequence[str], *, force: bool, json: bool) -> tuple[list[Kept], int]:
    """Return the runs that were not removed, and the exit code for those that were not found."""
    whole = {job: where for job in jobs if (where := finding.pipeline_directory(runs_dir, job))}
    with_runs = [job for job in jobs if job not in whole or finding.of_pipeline(runs_dir, job)]
    found, code = runs.find(runs_dir, with_runs) if with_runs else ([], 0)
    over, kept = _removable(found, force=force)
    removed, failed = _remove(over)
    kept += failed
    if json:
        show.as_json(_as_data(removed, kept))
    for run, size in () if json else removed:
        click.echo(f"{run.name}: removed, {show.size(size)}")
    for name in pipeline_runs.remove_empty([run for run, _ in removed], whole.values()):
        note(f"{name}: removed, a pipeline without runs")
    return kept, code


def _remove_old(  # noqa: PLR0913 - as the verb has it
    runs_dir: Path, older: str, *, models: bool, yes: bool, force: bool, json: bool
) -> list[Kept]:
    """Return the runs whose removal failed."""
    before = show.moment(older)
    there, errors = finding.list_runs(runs_dir)
    runs.warn_unreadable(errors)
    old = [run for run in there if removing.last_used(run) < before]
    over, kept = _removable(old, force=force) if old else ([], [])
    if not models:
        over, with_model = _without_models(over)
        kept += with_model
    if not json:
        _print(over, kept, f"no runs to remove in {runs_dir}")
    if not over or not (yes or _agreed(len(over))):
        over = []
    removed, failed = _remove(over)
    pipeline_runs.remove_empty(run for run, _ in removed)
    removing.remove_leftovers(runs_dir)
    if json:
        show.as_json(_as_data(removed, [*kept, *failed]))
    elif removed:
        click.echo(f"removed {_count(len(removed))}, {show.size(sum(size for _, size in removed))}")
    return failed


def _removable(found: Sequence[Run], *, force: bool) -> tuple[list[Run], list[Kept]]:
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


def _without_models(over: Sequence[Run]) -> tuple[list[Run], list[Kept]]:
    """Return the runs that recorded no model; the others, and those that cannot be read, with the reason."""
    from hpcdist.tracking import comparison

    without: list[Run] = []
    kept: list[Kept] = []
    for run in over:
        try:
            why = comparison.model_of(run)
        except OSError as unread:
            why = f"has records that cannot be read ({unread.strerror})"
        if why:
            kept.append((run, ConfigError(f"{run.name} {why}; --models removes it, too")))
        else:
            without.append(run)
    return without, kept


def _print(over: Sequence[Run], kept: Sequence[Kept], nothing: str) -> None:
    """Print the runs to remove, and why others are kept."""
    for _, error in kept:
        note(f"kept: {error}")
    if not over:
        note(nothing)
        return
    rows = [
        (run.name, show.age(removing.last_used(run)), show.size(removing.size(run.directory))) for run in over
    ]
    show.table(("run", "last used", "size"), rows)


def _agreed(count: int) -> bool:
    """Whether the user agrees to remove so many runs."""
    if not sys.stdin.isatty():
        raise ConfigError(Problem("nothing was removed: there is no terminal to ask", hint="use --yes"))
    return click.confirm(f"Remove {_count(count)}?", err=True)


def _count(runs: int) -> str:
    return f"{runs} run{'s' if runs != 1 else ''}"


def _remove(over: Iterable[Run]) -> tuple[list[tuple[Run, int]], list[Kept]]:
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


def _as_data(removed: Iterable[tuple[Run, int]], kept: Iterable[Kept]) -> list[dict[str, Any]]:
    """Return runs for JSON: what was removed with its size, the others with the reason."""
    return [
        *(_data(run) | {"removed": True, "bytes": size, "reason": ""} for run, size in removed),
        *(_data(run) | {"removed": False, "bytes": 0, "reason": str(error)} for run, error in kept),
    ]


def _data(run: Run) -> dict[str, Any]:
    return {"name": run.name, "directory": str(run.directory.path)}

"""``hpcdist prune``: remove all runs that are older than a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import rm, runs, spans
from hpcdist.cli.jobs.rm import Kept
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import json_option, runs_dir_option
from hpcdist.errors import ConfigError, Problem
from hpcdist.runs import finding, removing
from hpcdist.runs.rundir import Run
from hpcdist.studies import pipeline_runs
from hpcdist.tracking import comparison


@click.command("prune")
@click.option(
    "--older", metavar="TIME", required=True,
    help="Remove runs last used before: a span such as 30d, or a day such as 2026-11-01.",
)  # fmt: skip
@click.option("--models", is_flag=True, help="Also remove runs that recorded a model.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@runs_dir_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, older: str, models: bool, yes: bool, runs_dir: Path, json: bool
) -> None:
    """Remove all runs that are older than a time.

    It shows those whose jobs have ended, and asks. A run was last used when it was submitted, or its job
    wrote to the event log. Runs that recorded a model, or whose end is unknown, are kept.
    """
    if json and not yes:
        raise click.UsageError("--json does not ask; use it with --yes.")
    before = spans.moment(older)
    there, errors = finding.list_runs(runs_dir)
    runs.warn_unreadable(errors)
    old = [run for run in there if removing.last_used(run) < before]
    over, kept = rm.may_be_removed(old) if old else ([], [])
    if not models:
        over, with_model = _without_models(over)
        kept += with_model
    if not json:
        _print(over, kept, f"no runs to remove in {runs_dir}")
    if not over or not (yes or _agreed(len(over))):
        over = []
    removed, failed = rm.remove(over)
    pipeline_runs.remove_empty(run for run, _ in removed)
    removing.remove_leftovers(runs_dir)
    if json:
        show.as_json(rm.as_data(removed, [*kept, *failed]))
    elif removed:
        click.echo(f"removed {_count(len(removed))}, {spans.size(sum(size for _, size in removed))}")
    print_problems(problem for _, error in failed for problem in error.problems)
    ctx.exit(max([0, *(error.exit_code for _, error in failed)]))


def _without_models(over: Sequence[Run]) -> tuple[list[Run], list[Kept]]:
    """Return the runs that recorded no model, and the others with the reason; so what cannot be read."""
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
        (run.name, spans.age(removing.last_used(run)), spans.size(removing.size(run.directory)))
        for run in over
    ]
    show.table(("run", "last used", "size"), rows)


def _agreed(count: int) -> bool:
    """Whether the user agrees to remove so many runs.

    Raises:
        ConfigError: if nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise ConfigError(Problem("nothing was removed: there is no terminal to ask", hint="use --yes"))
    return click.confirm(f"Remove {_count(count)}?", err=True)


def _count(runs: int) -> str:
    return f"{runs} run{'s' if runs != 1 else ''}"

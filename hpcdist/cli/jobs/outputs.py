"""``hpcdist outputs``: the files of a run's outputs, or the models that runs recorded."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcdist.base.errors import ConfigError, ExitCode, Problem, warning
from hpcdist.cli import show
from hpcdist.cli.jobs import compare, runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.runs.services import Outdated
from hpcdist.tracking import comparison, outputs, series
from hpcdist.tracking.comparison import Tracked

if TYPE_CHECKING:
    from hpcdist.runs.remotes.channel import Channel
    from hpcdist.runs.remotes.fetching import Version
    from hpcdist.runs.rundir import Run


@click.command("outputs")
@job_options(several=True, required=False)
@click.option(
    "--check", is_flag=True, help="Compare hashes with the recorded ones; exit with 3 if one differs."
)
@click.option(
    "--get", "patterns", metavar="PATTERN", multiple=True,
    help="Fetch these files of a run on a remote, such as 'model*' or a folder; repeatable.",
)  # fmt: skip
@click.option("--models", is_flag=True, help="List the models that runs recorded, with their metrics.")
@compare.sort_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool, check: bool,
    patterns: tuple[str, ...], models: bool, by: str | None,
) -> None:  # fmt: skip
    """List the files of a run's outputs, with the recorded hashes.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array. A pipeline lists the outputs of all its operations. With --models, JOB may also be a pattern
    such as 'train-*'; several may be named, and without JOB, the models of all runs are listed.
    """
    _check_usage(jobs, by, models=models, needs_files=bool(check or patterns))
    if models:
        _list_models(jobs, runs_dir, by, json=json)
        return
    if runs.each_operation(ctx, command, runs_dir, jobs[0], "json"):
        return
    run, element = runs.find_pulled(runs_dir, jobs[0])
    remote = _only_remote(run, patterns, element)
    found = _files(run, element, remote or {})
    results = [outputs.check(run.directory, output) if check else "" for output in found]
    if json:
        show.as_json([_data(output, result) for output, result in zip(found, results, strict=True)])
    elif found:
        _print_files(found, results if check else ())
    elif remote is not None:
        note(f"{jobs[0]} has no outputs in {run.directory.outputs / element}")
    if remote is None:
        ctx.exit(ExitCode.SCHEDULER)
    if any(result not in ("", "ok") for result in results):
        ctx.exit(ExitCode.PLAN)


def _check_usage(jobs: Sequence[str], by: str | None, *, models: bool, needs_files: bool) -> None:
    if models and needs_files:
        raise click.UsageError("--models cannot be combined with --check or --get.")
    if by and not models:
        raise click.UsageError("--sort needs --models.")
    if not models and len(jobs) != 1:
        raise click.UsageError("name one run, or use --models.")


def _list_models(jobs: Sequence[str], runs_dir: Path, by: str | None, *, json: bool) -> None:
    found = [*comparison.models(compare.tracked(runs_dir, jobs))]
    found = comparison.in_order(found, by) if by else found
    if json:
        show.as_json([_model_data(item) for item in found])
    else:
        heads = ("run", "model", "bytes", "sha256")
        compare.print_table(found, [], heads, _model_cells, runs_dir)


def _model_cells(item: Tracked) -> tuple[str, ...]:
    [model] = item.artifacts
    return item.name, model.path, str(model.bytes), model.sha256[:12] or "-"


def _model_data(item: Tracked) -> dict[str, Any]:
    [model] = item.artifacts
    kept = {"path": model.path, "bytes": model.bytes, "sha256": model.sha256}
    return {**compare.as_data(item, [*item.params]), **kept}


def _files(run: Run, element: str, remote: Mapping[str, int]) -> list[outputs.Output]:
    """Return the outputs that are here, and those that are on the remote alone, of a run or its element."""
    recorded = series.read_others(run.directory)
    print_problems(map(warning, recorded.unread))
    every = outputs.outputs(run.directory, recorded, remote)
    return [output for output in every if not element or output.path.startswith(f"{element}/")]


def _data(output: outputs.Output, result: str) -> dict[str, Any]:
    return output._asdict() | {"sha256": output.sha256 or None, "check": result or None}


def _print_files(found: Sequence[outputs.Output], results: Sequence[str]) -> None:
    """Print a line for each, with the results of the check if there are any."""
    rows = [
        (each.path, each.kind, "-" if each.bytes is None else str(each.bytes), each.sha256[:12] or "-")
        for each in found
    ]
    if results:
        checked = [(*row, result or "-") for row, result in zip(rows, results, strict=True)]
        show.table(("path", "kind", "bytes", "sha256", "check"), checked)
    else:
        show.table(("path", "kind", "bytes", "sha256"), rows)


# --- Outputs of runs on remotes


def _only_remote(run: Run, patterns: Sequence[str], element: str) -> dict[str, int] | None:
    """Fetch outputs that match these patterns; return the other ones, with their bytes, that are not here.

    ``element``: of this one alone. None: the remote does not answer.
    """
    if not run.record.remote:
        if patterns:
            message = f"{run.name} is on this machine: its outputs are in {run.directory.outputs}"
            raise ConfigError(Problem(message, hint="omit --get"))
        return {}
    from hpcdist.runs.remotes import fetching, machines  # with the user's config, and what ssh needs
    from hpcdist.runs.remotes.connection import Unreachable

    channel = machines.of_runs([run]).runner.channel
    try:
        there = fetching.listing(channel, run)
    except (Unreachable, Outdated) as error:  # `pull` has warned of it
        if patterns:
            raise
        return {} if isinstance(error, Outdated) else None
    if patterns:
        _fetch(channel, run, fetching.matching(there, patterns, run, element))
    own = {name: version for name, version in there.items() if fetching.is_of(element, name)}
    left = fetching.missing(run, own)
    if left and not patterns:
        files = "1 file is" if len(left) == 1 else f"{len(left)} files are"
        note(f"{files} on {run.record.remote} alone: --get PATTERN fetches those that match")
    return left


def _fetch(channel: Channel, run: Run, names: Mapping[str, Version]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from hpcdist.runs.remotes import fetching

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(run.name, total=sum(version.bytes for version in names.values()), visible=False)

        def progress(count: int) -> None:
            bar.update(task, advance=count, visible=True)

        fetching.fetch(channel, run, names, progress)

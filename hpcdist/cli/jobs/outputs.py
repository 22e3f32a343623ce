"""``hpcdist outputs``: the files of a run's outputs, and whether they are what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import operations, runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.errors import ExitCode, warning
from hpcdist.tracking import outputs, series

if TYPE_CHECKING:
    from hpcdist.runs.rundir import Run


@click.command("outputs")
@job_options(several=False)
@click.option(
    "--check", is_flag=True, help="Compare hashes with the recorded ones; exit with 3 if one differs."
)
@click.option(
    "--get",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Fetch these files of a run on a remote, such as 'model*' or a folder; repeatable.",
)
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: str, runs_dir: Path, json: bool, check: bool, patterns: tuple[str, ...]
) -> None:
    """List the files of a run's outputs, with the recorded hashes.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array. Of a pipeline, those of all its operations are listed.
    """
    if operations.each(ctx, command, runs_dir, jobs, "json"):
        return
    run, element = runs.find_pulled(runs_dir, jobs)
    listed = _only_there(run, patterns, element)
    there = listed or {}
    recorded = series.read_others(run.directory)
    print_problems(map(warning, recorded.unread))
    here = outputs.outputs(run.directory, recorded)
    known = [output._replace(bytes=there.pop(output.path, output.bytes)) for output in here]
    remote = (outputs.Output(path, "there", size) for path, size in there.items())
    every = sorted([*known, *remote])
    found = [output for output in every if not element or output.path.startswith(f"{element}/")]
    checked = [outputs.check(run.directory, output) if check else "" for output in found]
    if json:
        show.as_json(
            [
                output._asdict() | {"sha256": output.sha256 or None, "check": result or None}
                for output, result in zip(found, checked, strict=True)
            ]
        )
    elif found:
        heads = ("path", "kind", "bytes", "sha256", *(("check",) if check else ()))
        rows = zip(map(_cells, found), checked, strict=True)
        show.table(heads, [(*cells, result or "-")[: len(heads)] for cells, result in rows])
    elif listed is not None:
        note(f"{jobs} has no outputs in {run.directory.outputs / element}")
    if listed is None:
        ctx.exit(ExitCode.SCHEDULER)
    if any(result not in ("", "ok") for result in checked):
        ctx.exit(ExitCode.PLAN)


def _only_there(run: Run, patterns: Sequence[str], element: str) -> dict[str, int] | None:
    if not (run.record.remote or patterns):
        return {}
    from hpcdist.cli.jobs import fetched  # with the user's config, and what ssh needs

    return fetched.only_there(run, patterns, element)


def _cells(output: outputs.Output) -> tuple[str, ...]:
    size = "-" if output.bytes is None else str(output.bytes)
    return output.path, output.kind, size, output.sha256[:12] or "-"

"""``hpcdist outputs``: the files of a run's outputs, and whether they are what was recorded."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.errors import ExitCode, warning
from hpcdist.tracking import outputs, series


@click.command("outputs")
@job_options(several=False)
@click.option(
    "--check", is_flag=True, help="Compare hashes with the recorded ones; exit with 3 if one differs."
)
@click.pass_context
def command(ctx: click.Context, jobs: str, runs_dir: Path, json: bool, check: bool) -> None:
    """List the files of a run's outputs, with the recorded hashes.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array.
    """
    run, element = runs.find_pulled(runs_dir, jobs)
    recorded = series.read_others(run.directory)
    print_problems(map(warning, recorded.unread))
    found = [
        output
        for output in outputs.outputs(run.directory, recorded)
        if not element or output.path.startswith(f"{element}/")
    ]
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
    else:
        note(f"{jobs} has no outputs in {run.directory.outputs / element}")
    if any(result not in ("", "ok") for result in checked):
        ctx.exit(ExitCode.PLAN)


def _cells(output: outputs.Output) -> tuple[str, ...]:
    size = "-" if output.bytes is None else str(output.bytes)
    return output.path, output.kind, size, output.sha256[:12] or "-"

"""``hpcdist render``: the job script, which also runs without hpcdist and without a run directory."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.experiment.new_file import overwrite
from hpcdist.cli.options import experiment_options, json_option
from hpcdist.cli.session import planned
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.script.renderer import render


@click.command("render")
@experiment_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the script to this file, over what it holds, for you alone to read.",
)
@click.option("--annotate", is_flag=True, help="Write the origin of every line beside it.")
@json_option
def command(options: ExperimentOptions, output: str | None, annotate: bool, json: bool) -> None:
    """Print the job script.

    It runs without hpcdist, by `sbatch FILE`, and makes its run directory where it is submitted.
    """
    if output and json:
        raise click.UsageError("--output goes with no --json.")
    made = planned(options)
    script = render(made.plan, annotate=annotate)
    if output:
        overwrite(Path(output), script.encode(), script=True)
    elif json:
        show.as_json({"script": script, "warnings": [*map(str, made.warnings)]})
    else:
        click.echo(script.encode(), nl=False)

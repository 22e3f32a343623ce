"""``hpcdist render``: the job script, which also runs without hpcdist and without a run directory."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.experiment.new_file import overwrite
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import pipeline_of, planned_as_submitted, runs_here
from hpcdist.loading.planning import ExperimentOptions, alone
from hpcdist.script.renderer import render


@click.command("render")
@experiment_options
@on_option
@click.option(
    "-o", "--output", metavar="FILE",
    help="Write the script to this file, over what it holds, for you alone to read.",
)  # fmt: skip
@click.option("--trial", type=click.IntRange(min=1), metavar="N", help="Of a search: trial N. [default: 1]")
@click.option("--annotate", is_flag=True, help="Write the origin of every line beside it.")
@json_option
def command(
    options: ExperimentOptions, output: str | None, trial: int | None, annotate: bool, json: bool
) -> None:
    """Print the job script.

    It runs without hpcdist, by `sbatch FILE`; of a search it is that of one trial. What `submit` submits has
    a runtime behind it, which keeps an event log, too; so has what is printed of an elastic job and of Ray.
    """
    if output and json:
        raise click.UsageError("--output cannot be combined with --json.")
    document, is_pipeline = pipeline_of(options)
    if document and is_pipeline:
        from hpcdist.cli.jobs import pipeline  # with what submits runs

        if output or trial or annotate:
            raise click.UsageError("A pipeline has no --output, no --trial and no --annotate.")
        pipeline.show_scripts(options, document, runs_here(), json=json)
        return
    made = planned_as_submitted(options, document)
    script = render(alone(made, trial).plan, annotate=annotate)
    if output:
        overwrite(Path(output), script.encode(), script=True)
    elif json:
        show.as_json({"script": script, "warnings": [*map(str, made.warnings)]})
    else:
        click.echo(script.encode(), nl=False)

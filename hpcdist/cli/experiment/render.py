"""``hpcdist render``: the job script, which also runs without hpcdist and without a run directory."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.experiment.new_file import overwrite
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import pipeline_of, planned_as_submitted, runs_here
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.script.renderer import render, render_job


@click.command("render")
@experiment_options
@on_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the script to this file, over what it holds, for you alone to read.",
)
@click.option("--job", "job_alone", is_flag=True, help="Print the first part alone: what is this job's own.")
@click.option("--annotate", is_flag=True, help="Write the origin of every line beside it.")
@json_option
def command(
    options: ExperimentOptions, output: str | None, job_alone: bool, annotate: bool, json: bool
) -> None:
    """Print the job script.

    It runs without hpcdist, by `sbatch FILE`, and makes its run directory where it is submitted. Its first
    part is the job's own; the runtime behind it, the same in every job, is what runs that.
    """
    if output and job_alone:
        raise click.UsageError("--output cannot be combined with --job: the first part alone runs nothing.")
    if output and json:
        raise click.UsageError("--output cannot be combined with --json.")
    document, is_pipeline = pipeline_of(options)
    if document and is_pipeline:
        from hpcdist.cli.jobs import pipeline  # with what submits runs

        if output or job_alone or annotate:
            raise click.UsageError("A pipeline has no --output, no --job and no --annotate.")
        pipeline.show_scripts(options, document, runs_here(), json=json)
        return
    made = planned_as_submitted(options, document)
    script = (render_job if job_alone else render)(made.plan, annotate=annotate)
    if output:
        overwrite(Path(output), script.encode(), script=True)
    elif json:
        show.as_json({"script": script, "warnings": [*map(str, made.warnings)]})
    else:
        click.echo(script.encode(), nl=False)

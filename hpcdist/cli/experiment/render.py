"""``hpcdist render``: the job script, which also runs without hpcdist and without a run directory."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.experiment.new_file import overwrite
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import pipeline_of, planned_as_submitted, runs_here
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.script.plain import rendered


@click.command("render")
@experiment_options
@on_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the script to this file, over what it holds, for you alone to read.",
)
@click.option(
    "--job", "job_alone", is_flag=True, help="Print the job's own part alone, where a runtime follows."
)
@click.option("--annotate", is_flag=True, help="Write the origin of every line beside it.")
@json_option
def command(
    options: ExperimentOptions, output: str | None, job_alone: bool, annotate: bool, json: bool
) -> None:
    """Print the job script, which runs without hpcdist, by `sbatch FILE`.

    What `submit` submits keeps an event log, too: its script has a runtime behind the job's own part. So has
    the one that is printed of a search, of steps, of an elastic job, and of one with servers.
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
    script = rendered(made.plan, annotate=annotate, job_alone=job_alone)
    if output:
        overwrite(Path(output), script.encode(), script=True)
    elif json:
        show.as_json({"script": script, "warnings": [*map(str, made.warnings)]})
    else:
        click.echo(script.encode(), nl=False)

"""``hpcdist check``: all problems of an experiment on its site."""

from __future__ import annotations

from contextlib import nullcontext

import click

from hpcdist.base.tree import Document
from hpcdist.cli import ci_formats, costs, show
from hpcdist.cli.messages import collect, print_problems
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import pipeline_of, planned_as_submitted, print_unparsed, runs_here
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.script.renderer import render


@click.command("check")
@experiment_options
@on_option
@click.option(
    "--format",
    "form_of_output",
    type=click.Choice(["text", *ci_formats.FORMATS]),
    default="text",
    help="Print the problems for people, as annotations of GitHub, or as SARIF.",
)
@click.option("--fix", is_flag=True, help="Write a mended copy of a job script beside it: NAME.fixed.sh.")
@json_option
def command(options: ExperimentOptions, form_of_output: str, fix: bool, json: bool) -> None:
    """Check an experiment for problems.

    A job script is also checked as it stands, for `sbatch`; without --site, only for what needs no site.
    The exit code is 0 if it can be submitted, 2 if the file is wrong, and 3 if it does not fit the site.
    Unusual but valid settings, such as a variable for debugging, are printed as notes only here.
    """
    if json and form_of_output != "text":
        raise click.UsageError("--format cannot be combined with --json.")
    document, is_pipeline = pipeline_of(options)
    is_script = document is not None and "job_script" in document.data
    if fix and not is_script:
        raise click.UsageError("--fix is for job scripts.")
    printer = show.problems_as_json if json else ci_formats.FORMATS.get(form_of_output)
    with collect(printer) if printer else nullcontext():
        if document and is_pipeline:
            from hpcdist.cli.jobs import pipeline  # with what submits runs

            pipeline.check(options, document, runs_here(), quiet=printer is not None)
            return
        if document and is_script:
            from hpcdist.cli.experiment import script_check  # with the rules of job scripts

            made = script_check.check(options, document, fix=fix)
        else:
            made = check(options, document)
    if not printer:
        alone = "checked alone; --site NAME checks it against a machine"
        click.echo(f"ok: {options.file}: {made.summary if made else alone}")
        if made:
            costs.print_cost(made)


def check(options: ExperimentOptions, document: Document | None = None) -> Planned:
    """Print warnings and notes, and return the plan; ``document`` replaces the file's content.

    Raises:
        HpcdistError: with all problems.
    """
    made = planned_as_submitted(options, document)
    render(made.plan)
    print_unparsed(made)
    print_problems(made.unusual)
    return made

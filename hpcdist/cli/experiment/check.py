"""``hpcdist check``: all problems of an experiment on its site."""

from __future__ import annotations

from contextlib import nullcontext

import click

from hpcdist.base.tree import Document
from hpcdist.cli import costs, show
from hpcdist.cli.messages import collect, print_problems
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import pipeline_of, planned_as_submitted, print_unparsed, runs_here
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.script.renderer import render


@click.command("check")
@experiment_options
@on_option
@json_option
def command(options: ExperimentOptions, json: bool) -> None:
    """Check an experiment for problems.

    The exit code is 0 if it can be submitted, 2 if the file is wrong, and 3 if it does not fit the site.
    Unusual but valid settings, such as a variable for debugging, are printed as notes only here.
    """
    document, is_pipeline = pipeline_of(options)
    if document and is_pipeline:
        from hpcdist.cli.jobs import pipeline  # with what submits runs

        with collect(show.problems_as_json) if json else nullcontext():
            pipeline.check(options, document, runs_here(), quiet=json)
    elif json:
        with collect(show.problems_as_json):
            check(options, document)
    else:
        made = check(options, document)
        click.echo(f"ok: {options.file}: {made.summary}")
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

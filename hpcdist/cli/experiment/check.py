"""``hpcdist check``: all problems of an experiment, on the site where it would run."""

from __future__ import annotations

import click

from hpcdist.cli import show
from hpcdist.cli.options import experiment_options, json_option
from hpcdist.cli.session import planned
from hpcdist.cli.tell import listed, tell
from hpcdist.documents.tree import Document
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.script.renderer import render


@click.command("check")
@experiment_options
@json_option
def command(options: ExperimentOptions, json: bool) -> None:
    """Tell everything that is wrong with an experiment.

    The exit code is 0 when it can be submitted, 2 when the file is wrong, 3 when it does not fit the site.
    What is right and yet no habit, such as a variable for debugging, is a note here and nowhere else.
    """
    if json:
        with listed(show.problems_as_json):
            checked(options)
    else:
        click.echo(f"ok: {options.file}: {checked(options).summary}")


def checked(options: ExperimentOptions, document: Document | None = None) -> Planned:
    """Tell what is odd, and return what would run; ``document`` is what the file will hold.

    Raises:
        HpcdistError: with everything that is wrong.
    """
    made = planned(options, document)
    render(made.plan)
    tell(made.habits)
    return made

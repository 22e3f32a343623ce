"""``hpcdist check``: all problems of an experiment, on the site where it would run."""

from __future__ import annotations

import click

from hpcdist import lint
from hpcdist.cli import show
from hpcdist.cli.options import experiment_options, json_option
from hpcdist.cli.session import Asked, Session, session
from hpcdist.cli.tell import listed, tell
from hpcdist.documents.tree import Document
from hpcdist.errors import Problem
from hpcdist.script.renderer import render


@click.command("check")
@experiment_options
@json_option
def command(asked: Asked, json: bool) -> None:
    """Tell everything that is wrong with an experiment.

    The exit code is 0 when it can be submitted, 2 when the file is wrong, 3 when it does not fit the site.
    What is right and yet no habit, such as a variable for debugging, is a note here and nowhere else.
    """
    if json:
        with listed(show.problems_as_json):
            checked(asked)
    else:
        click.echo(f"ok: {asked.file}: {checked(asked).summary}")


def checked(asked: Asked, document: Document | None = None) -> Session:
    """Tell what is odd, and return what would run; ``document`` is what the file will hold.

    Raises:
        HpcdistError: with everything that is wrong.
    """
    made = session(asked, document)
    plan = made.plan
    render(plan)
    notes = (item for item in lint.of_plan(plan, made.machine.site) if item.severity == "note")
    tell(Problem(str(item), severity="note") for item in notes)
    return made

"""``hpcdist check``: all problems of an experiment, on the site where it would run."""

from __future__ import annotations

from collections.abc import Iterable

import click

from hpcdist.cli import show
from hpcdist.cli.options import experiment_options, json_option
from hpcdist.cli.session import Asked, session
from hpcdist.cli.tell import listed
from hpcdist.errors import Problem, dotted
from hpcdist.renderer import render, summary


@click.command("check")
@experiment_options
@json_option
def command(asked: Asked, json: bool) -> None:
    """Tell everything that is wrong with an experiment.

    The exit code is 0 when it can be submitted, 2 when the file is wrong, 3 when it does not fit the site.
    """
    if json:
        with listed(_print):
            _checked(asked)
    else:
        click.echo(f"ok: {asked.file}: {_checked(asked)}")


def _checked(asked: Asked) -> str:
    plan = session(asked).plan
    render(plan)
    return f"{summary(plan)} (site {plan.site})"


def _print(problems: Iterable[Problem]) -> None:
    show.as_json(
        [
            {
                "severity": problem.severity,
                "file": problem.place and problem.place.file,
                "line": problem.place and problem.place.line,
                "column": problem.place and problem.place.column,
                "path": dotted(problem.path),
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in problems
        ]
    )

"""Options that several verbs share, each as one decorator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcdist.cli.session import Asked

Verb = Callable[..., None]


def assignment(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``; the value may hold further equals signs."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
    return name.strip(), value


site_path_option = click.option(
    "--site-path",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Look for sites in this folder first; repeatable.",
)

changes_options = (
    click.option(
        "-p", "--param", "params", type=assignment, metavar="NAME=VALUE", multiple=True,
        help="Give a param another value; repeatable.",
    ),
    click.option(
        "--set", "settings", type=assignment, metavar="NAME=VALUE", multiple=True,
        help="Set any value of the file, such as batch.walltime=2h; repeatable.",
    ),
)  # fmt: skip
"""What changes an experiment: each a decorator."""

_EXPERIMENT = (
    click.argument("file", metavar="EXP"),
    click.option("--site", metavar="SITE", help="The machine: a name (`hpcdist sites list`) or a site file."),
    site_path_option,
    *changes_options,
    click.option(
        "--no-container", is_flag=True,
        help="Run without the file's image, with the site's own modules (batch.container=false).",
    ),
)  # fmt: skip


def experiment_options(verb: Callable[..., None]) -> Verb:
    """Give a verb the experiment file EXP (``-`` for stdin) and what changes it, as one ``Asked``."""

    @functools.wraps(verb)
    def with_asked(  # noqa: PLR0913, PLR0917 - one for each option
        file: str,
        site: str | None,
        site_path: tuple[str, ...],
        params: Any,
        settings: Any,
        no_container: bool,
        **others: Any,
    ) -> None:
        own = (("batch.container", "false"),) if no_container else ()
        verb(_asked(file, site, site_path, params, (*settings, *own)), **others)

    decorated: Verb = with_asked
    for option in reversed(_EXPERIMENT):
        decorated = option(decorated)
    return decorated


def _asked(
    file: str,
    site: str | None,
    site_path: tuple[str, ...],
    params: tuple[tuple[str, str], ...],
    settings: tuple[tuple[str, str], ...],
) -> Asked:
    from hpcdist.cli.session import Asked

    return Asked(file, site, site_path, params, settings)


json_option = click.option("--json", "json", is_flag=True, help="Print one JSON document.")


def runs_dir_option(verb: Verb) -> Verb:
    """Give a verb the folder of the runs, as ``runs_dir``."""
    return click.option(
        "--runs-dir", metavar="DIR", callback=_chosen_runs_dir,
        help="Where runs are kept; else $HPCDIST_RUNS_DIR, else ./runs.",
    )(verb)  # fmt: skip


def _chosen_runs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> Path:
    from hpcdist import rundir

    del ctx, param
    return rundir.choose(value, os.environ)


def job_options(*, several: bool, required: bool = True) -> Callable[[Verb], Verb]:
    """Give a verb one JOB or several, as ``jobs``; also --runs-dir and --json."""

    def decorate(verb: Verb) -> Verb:
        decorated = json_option(runs_dir_option(verb))
        return click.argument(
            "jobs",
            metavar="JOB..." if several else "JOB",
            nargs=-1 if several else 1,
            required=required,
        )(decorated)

    return decorate

"""Options that several verbs share, each as one decorator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hpcdist.cli import completion

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

site_option = click.option(
    "--site", metavar="SITE", shell_complete=completion.sites,
    help="The machine: a name (`hpcdist sites list`) or a site file.",
)  # fmt: skip

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

foreign_options = (
    click.option(
        "--from", "form", metavar="FORM", default="", shell_complete=completion.forms,
        help="The form of the file, which is told by its keys else.",
    ),
    click.option(
        "--name", "job", metavar="NAME", default="", help="The job to take where the file has several.",
    ),
)  # fmt: skip
"""How a file of another tool is read: each a decorator."""

_EXPERIMENT = (
    click.argument("file", metavar="EXP", shell_complete=completion.files),
    site_option,
    site_path_option,
    *changes_options,
    click.option(
        "--no-container", is_flag=True,
        help="Run without the file's image, with the site's own modules (batch.container=false).",
    ),
    *foreign_options,
)  # fmt: skip


def experiment_options(verb: Callable[..., None]) -> Verb:
    """Give a verb the experiment file EXP (``-`` for stdin) and what changes it, as ``ExperimentOptions``."""

    @functools.wraps(verb)
    def with_options(*, settings: tuple[tuple[str, str], ...], no_container: bool, **others: Any) -> None:
        from hpcdist.loading.planning import ExperimentOptions

        own = (("batch.container", "false"),) if no_container else ()
        said = {name: others.pop(name) for name in ExperimentOptions._fields if name in others}
        verb(ExperimentOptions(**said, settings=(*settings, *own)), **others)

    decorated: Verb = with_options
    for option in reversed(_EXPERIMENT):
        decorated = option(decorated)
    return decorated


json_option = click.option("--json", "json", is_flag=True, help="Print one JSON document.")


def runs_dir_option(verb: Verb) -> Verb:
    """Give a verb the folder of the runs, as ``runs_dir``."""
    return click.option(
        "--runs-dir", metavar="DIR", callback=_chosen_runs_dir, shell_complete=completion.folders,
        help="Where runs are kept; else $HPCDIST_RUNS_DIR, else ./runs.",
    )(verb)  # fmt: skip


def _chosen_runs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> Path:
    from hpcdist.runs import rundir

    del ctx, param
    return rundir.choose(value, os.environ)


def job_options(*, several: bool, required: bool = True) -> Callable[[Verb], Verb]:
    """Give a verb one JOB or several, as ``jobs``; also --runs-dir and --json."""
    metavar = "JOB..." if several else "JOB"

    def decorate(verb: Verb) -> Verb:
        decorated = json_option(runs_dir_option(verb))
        return click.argument(
            "jobs",
            metavar=metavar if required else f"[{metavar}]",
            nargs=-1 if several else 1,
            required=required,
            shell_complete=completion.runs,
        )(decorated)

    return decorate

"""Options that several verbs share, each as one decorator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hpcdist.cli import completion

Verb = Callable[..., None]


def assignment(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``; the value may contain equals signs."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
    return name.strip(), value


site_path_option = click.option(
    "--site-path",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Search this directory for sites first; repeatable.",
)

site_option = click.option(
    "--site", metavar="SITE", shell_complete=completion.sites,
    help="Site to run on: a name (see `hpcdist sites list`) or a site file.",
)  # fmt: skip

override_options = (
    click.option(
        "-p", "--param", "params", type=assignment, metavar="NAME=VALUE", multiple=True,
        help="Override a param of the file; repeatable.",
    ),
    click.option(
        "--set", "settings", type=assignment, metavar="NAME=VALUE", multiple=True,
        help="Override any key of the file, e.g. batch.walltime=2h; repeatable.",
    ),
)  # fmt: skip
"""Options that override values of an experiment: decorators."""

foreign_options = (
    click.option(
        "--from", "form", metavar="FORMAT", default="", shell_complete=completion.formats,
        help="Format of the file (default: detected from its keys), or tool of a command line after --.",
    ),
    click.option(
        "--name", "job", metavar="NAME", default="", help="Job to use if the file has several.",
    ),
)  # fmt: skip
"""Options for reading a file of another tool: decorators."""

_EXPERIMENT = (
    click.argument("words", metavar="EXP", nargs=-1, required=True, shell_complete=completion.files),
    site_option,
    site_path_option,
    *override_options,
    click.option(
        "--no-container", is_flag=True,
        help="Ignore the file's image and use the site's modules (batch.container=false).",
    ),
    *foreign_options,
)  # fmt: skip


def experiment_options(verb: Callable[..., None]) -> Verb:
    """Add EXP and the options that override it to a verb, as ``ExperimentOptions``.

    EXP is a file (``-`` for stdin), or with ``--from`` the words of a command line of that tool.
    """

    @functools.wraps(verb)
    def with_options(*, words: tuple[str, ...], **others: Any) -> None:
        others |= {"file": words[0]}
        if len(words) > 1:
            check_form(words, others["form"])
            others |= {"file": f"a command line of {others['form']}", "words": words}
        _with_experiment(verb, **others)

    return _decorated(with_options, _EXPERIMENT)


def file_options(verb: Callable[..., None]) -> Verb:
    """Add EXP, which is one file, and the most used options that override it, as ``ExperimentOptions``."""

    @functools.wraps(verb)
    def with_options(**others: Any) -> None:
        _with_experiment(verb, **others)

    file = click.argument("file", metavar="EXP", shell_complete=completion.files)
    return _decorated(with_options, (file, site_option, *override_options))


def on_option(verb: Verb) -> Verb:
    """Add ``--on`` to a verb with EXP, as ``remote`` of its ``ExperimentOptions``."""
    text = "Remote of your config that it is for, whose site counts; `submit` submits there, over ssh."
    return click.option("--on", "remote", metavar="REMOTE", help=text)(verb)


def experiment_and_command(verb: Callable[..., None]) -> Verb:
    """Add EXP, which is a file, the options that override it, and words behind them as ``command``."""
    command = click.argument("command", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
    file = click.argument("file", metavar="EXP", shell_complete=completion.files)

    @functools.wraps(verb)
    def with_options(**others: Any) -> None:
        _with_experiment(verb, **others)

    return _decorated(with_options, (file, command, *_EXPERIMENT[1:]))


def _with_experiment(
    verb: Callable[..., None],
    *,
    settings: tuple[tuple[str, str], ...],
    no_container: bool = False,
    **others: Any,
) -> None:
    from hpcdist.loading.planning import ExperimentOptions

    own = (("batch.container", "false"),) if no_container else ()
    given = {name: others.pop(name) for name in ExperimentOptions._fields if name in others}
    verb(ExperimentOptions(**given, settings=(*settings, *own)), **others)


def _decorated(verb: Verb, options: Iterable[Callable[[Verb], Verb]]) -> Verb:
    for option in reversed([*options]):
        verb = option(verb)
    return verb


def check_form(words: Sequence[str], form: str) -> None:
    """Check that a command line of another tool, which is several words, has the name of its tool.

    Raises:
        UsageError: if it has none.
    """
    if not form:
        from hpcdist.loading import recognition

        known = recognition.forms_of_words()
        message = (
            f"These are {len(words)} words, not one file. Give the tool of this command line with --from: "
        )
        raise click.UsageError(f"{message}{known}.")


json_option = click.option("--json", "json", is_flag=True, help="Print the result as one JSON document.")


def given(ctx: click.Context, is_meant: Callable[[str], bool]) -> list[str]:
    """Return the options of the command line whose params are meant, as users write them."""
    return [
        "/".join((param.opts[0], *param.secondary_opts))
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and (name := param.name or "")
        and is_meant(name)
        and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]


def runs_dir_option(verb: Verb) -> Verb:
    """Add ``--runs-dir`` to a verb, as ``runs_dir``."""
    return click.option(
        "--runs-dir", metavar="DIR", callback=_runs_dir, shell_complete=completion.directories,
        help="Directory of the runs; default: $HPCDIST_RUNS_DIR, else ./runs.",
    )(verb)  # fmt: skip


def _runs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> Path:
    from hpcdist.runs import rundir

    del ctx, param
    return rundir.choose(value, os.environ)


def job_options(*, several: bool, required: bool = True) -> Callable[[Verb], Verb]:
    """Add one JOB or several, as ``jobs``, --runs-dir and --json to a verb."""
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

"""``hpcdist doctor``: what could keep jobs from running well here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from hpcdist import lint
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.options import changes_options, json_option, runs_dir_option, site_option, site_path_option
from hpcdist.cli.session import machine_of
from hpcdist.cli.site.doctor_job import Wanted, trial
from hpcdist.cli.site.lint_env import FOUND, judged
from hpcdist.cli.site.sites_init import LoginNode, look
from hpcdist.cli.tell import one_line
from hpcdist.doctor import login
from hpcdist.doctor.batch import ChosenSite
from hpcdist.doctor.devices import CHECK_NODES
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.login import HostProbe, TimeoutGuard
from hpcdist.doctor.runs import FILE_SYSTEM
from hpcdist.errors import comma_list
from hpcdist.loading import preferences
from hpcdist.runs.services import Services
from hpcdist.schedulers.surveyors import surveyors

_OF_JOB: Final = ("nodes", "gpus", "account", "partition", "qos", "walltime", "settings", "timeout")


@click.command("doctor")
@site_option
@site_path_option
@runs_dir_option
@click.option("--job", is_flag=True, help="Submit a short job too, and look at its nodes and the network.")
@click.option("--nodes", type=click.IntRange(min=1), default=2, show_default=True, help="Nodes of that job.")
@click.option(
    "--gpus", type=click.IntRange(min=0), help="GPUs on each of its nodes; else all that the site tells of."
)
@click.option("--account", metavar="NAME", help="What that job is charged to.")
@click.option("--partition", metavar="NAME", help="The partition of that job.")
@click.option("--qos", metavar="NAME", help="The quality of service of that job.")
@click.option("--walltime", metavar="TIME", help="The time limit of that job; else 5 minutes.")
@changes_options[1]
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for that job, its time in the queue included; then cancel it.",
)
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context,
    site: str | None,
    site_path: tuple[str, ...],
    runs_dir: Path,
    job: bool,
    nodes: int,
    gpus: int | None,
    account: str | None,
    partition: str | None,
    qos: str | None,
    walltime: str | None,
    settings: tuple[tuple[str, str], ...],
    timeout: float,
    json: bool,
) -> None:
    """Tell what could keep jobs from running well here.

    Each finding comes with what to do about it. Without --job only this host is looked at. The exit code is
    0 where all is well and 3 where something is odd; a note, and what could not be looked at, change nothing.
    """
    if not job:
        _refuse_what_is_of_the_job(ctx)
    chosen = _chosen(site, site_path)
    services = runs.services()
    found = [*_login(chosen, runs_dir, services)]
    if job:
        batch = {"account": account, "partition": partition, "qos": qos, "walltime": walltime}
        own = [(f"batch.{name}", value) for name, value in batch.items() if value is not None]
        wanted = Wanted(site, site_path, nodes, gpus, partition, (*own, *settings), timeout)
        found = settled(found, [*trial(chosen.site, wanted, runs_dir, services)])
    if json:
        show.as_json([item._asdict() for item in found])
    else:
        tell(found)
    if any(item.needs_action for item in found):
        raise click.exceptions.Exit(FOUND)


def _refuse_what_is_of_the_job(ctx: click.Context) -> None:
    """Refuse the options of a job that is not to be submitted.

    Raises:
        UsageError: when there are any.
    """
    said = ", ".join(
        param.opts[0]
        for param in ctx.command.params
        if param.name in _OF_JOB and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    )
    if said:
        raise click.UsageError(f"{said}: of a job, which only --job submits.")


def _chosen(name: str | None, site_path: tuple[str, ...]) -> ChosenSite:
    """Return the site that a job would be for, as `submit` chooses it, and its file."""
    found = machine_of(name, site_path, preferences.read(os.environ), working=True)
    return ChosenSite(found.site, found.origin, str(found.file))


def _login(chosen: ChosenSite, runs_dir: Path, services: Services) -> Iterator[Finding]:
    scheduler = chosen.site.scheduler
    runner = TimeoutGuard(services.runner)
    node = LoginNode(runner, services.now)
    survey = look(scheduler, node) if scheduler in surveyors else None
    yield from login.findings(chosen, survey, runs_dir, HostProbe(runner, shutil.which))
    yield from _of_shell(chosen)


def _of_shell(chosen: ChosenSite) -> Iterator[Finding]:
    """Yield what `lint-env` says of this shell."""
    odd = judged(chosen.site)
    for item in lint.summed(odd):
        yield Finding("variables", item.name, item.severity, item.text, item.hint)
    if not odd:
        yield Finding("variables", "this shell", "ok", "nothing is odd about its variables")


def settled(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """Return all findings; what the job has shown is no longer asked: that the nodes share the folder."""
    shared = any((item.name, item.status) == ("records", "ok") for item in after)
    open_still = (item for item in before if not (shared and item.name == FILE_SYSTEM))
    return [*(item._replace(hint="") if item.hint == CHECK_NODES else item for item in open_still), *after]


def tell(found: Sequence[Finding]) -> None:
    """Print a table, and beneath it what to do."""
    rows = []
    for group, members in groupby(found, key=lambda item: item.group):
        for number, item in enumerate(members):
            rows.append(("" if number else group, item.name, item.status, one_line(item.detail)))
    show.table((), rows)
    remedies = dict.fromkeys(f"{item.status}: {item.name}: {item.hint}" for item in found if item.hint)
    if remedies:
        click.echo()
    for line in remedies:
        click.echo(one_line(line))
    if not any(item.needs_action for item in found):
        unknown = comma_list(dict.fromkeys(item.name for item in found if item.status == "unknown"))
        click.echo(f"\nok: nothing is odd{f'; not known: {unknown}' if unknown else ''}")

"""``hpcdist doctor``: check this machine for problems."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import click

from hpcdist import lint
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import (
    assignment,
    given,
    json_option,
    override_options,
    runs_dir_option,
    site_option,
    site_path_option,
)
from hpcdist.cli.session import machine_of
from hpcdist.cli.site import doctor_nodes
from hpcdist.cli.site.doctor_job import CheckJobOptions, run_check_job
from hpcdist.cli.site.lint_env import FOUND, lint_variables
from hpcdist.cli.site.sites_init import LoginNode, run_survey
from hpcdist.doctor import candidates, login
from hpcdist.doctor.batch import ChosenSite
from hpcdist.doctor.devices import CHECK_NODES
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.login import HostProbe, TimeoutGuard
from hpcdist.doctor.runs import FILE_SYSTEM
from hpcdist.errors import comma_list
from hpcdist.loading import preferences
from hpcdist.runs.services import Services
from hpcdist.schedulers.surveyors import surveyors

_OF_JOB: Final = ("tries", "nodes", "gpus", "account", "partition", "qos", "walltime", "settings", "timeout")
_MOST_NODES: Final = 16


@click.command("doctor")
@site_option
@site_path_option
@runs_dir_option
@click.option("--job", is_flag=True, help="Also submit a short job that checks its nodes and the network.")
@click.option("--nodes", metavar="N|LIST", default="2", show_default=True,
              help="Nodes of the job: how many, or which, such as n[1-4,7].")  # fmt: skip
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs on each node of the job; default: all.")
@click.option("--account", metavar="NAME", help="Account to charge.")
@click.option("--partition", metavar="NAME", help="Partition of the job.")
@click.option("--qos", metavar="NAME", help="Quality of service of the job.")
@click.option("--walltime", metavar="TIME", help="Time limit of the job; default: 5 minutes.")
@override_options[1]
@click.option(
    "--try",
    "tries",
    type=assignment,
    metavar="NAME=VALUE,...",
    multiple=True,
    help="Measure these values of a variable side by side; repeatable. Values with commas: NAME='A,B|C'.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="Cancel the job after this time, including its time in the queue.",
)
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context,
    site: str | None,
    site_path: tuple[str, ...],
    runs_dir: Path,
    job: bool,
    nodes: str,
    gpus: int | None,
    account: str | None,
    partition: str | None,
    qos: str | None,
    walltime: str | None,
    settings: tuple[tuple[str, str], ...],
    tries: tuple[tuple[str, str], ...],
    timeout: float,
    json: bool,
) -> None:
    """Check this machine for problems.

    Each finding is printed with its remedy. Without --job, only this host is checked. The exit code is 0 if
    no problem was found, and 3 otherwise; notes and failed checks do not count as problems.
    """
    if not job:
        _refuse_job_options(ctx)
    tried, on = candidates.grid(tries), doctor_nodes.read(nodes)
    chosen = _chosen(site, site_path)
    services = runs.services()
    found = [*_login(chosen, runs_dir, services)]
    if job:
        batch = {"account": account, "partition": partition, "qos": qos, "walltime": walltime}
        own = [(f"batch.{name}", value) for name, value in batch.items() if value is not None]
        further = ((*own, *settings), timeout, tried, on.names)
        wanted = CheckJobOptions(site, site_path, on.number, gpus, partition, *further)
        found = merged(found, [*run_check_job(chosen.site, wanted, runs_dir, services)])
    if json:
        show.as_json([{**item._asdict(), "numbers": dict(item.numbers)} for item in found])
    else:
        print_findings(found)
    if any(item.needs_action for item in found):
        raise click.exceptions.Exit(FOUND)


def _refuse_job_options(ctx: click.Context) -> None:
    """Refuse options of the job if none is submitted.

    Raises:
        UsageError: if there are any.
    """
    of_job = ", ".join(given(ctx, lambda name: name in _OF_JOB))
    if of_job:
        raise click.UsageError(f"{of_job} can only be used with --job.")


def _chosen(name: str | None, site_path: tuple[str, ...]) -> ChosenSite:
    """Return the site as `submit` chooses it, and its file."""
    found = machine_of(name, site_path, preferences.read(os.environ), working=True)
    return ChosenSite(found.site, found.origin, str(found.file))


def _login(chosen: ChosenSite, runs_dir: Path, services: Services) -> Iterator[Finding]:
    scheduler = chosen.site.scheduler
    runner = TimeoutGuard(services.runner)
    node = LoginNode(runner, services.now)
    survey = run_survey(scheduler, node) if scheduler in surveyors else None
    yield from login.findings(chosen, survey, runs_dir, HostProbe(runner, shutil.which))
    yield from _of_shell(chosen)


def _of_shell(chosen: ChosenSite) -> Iterator[Finding]:
    """Yield the findings of `lint-env` for this shell."""
    odd = lint_variables(chosen.site)
    for item in lint.summarized(odd):
        yield Finding("variables", item.name, item.severity, item.text, item.hint)
    if not odd:
        yield Finding("variables", "this shell", "ok", "no problem with its variables")


def merged(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """Return all findings, without those that the job has resolved: whether the nodes share the directory."""
    shared = any((item.name, item.status) == ("records", "ok") for item in after)
    unresolved = (item for item in before if not (shared and item.name == FILE_SYSTEM))
    return [*(item._replace(hint="") if item.hint == CHECK_NODES else item for item in unresolved), *after]


def _shortened(members: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of a group; of nodes that are well, which come the slowest first, only so many."""
    well = [item for item in members if item.numbers and item.status == "ok"]
    left_out = {*well[_MOST_NODES:]}
    for item in members:
        if item not in left_out:
            yield item
        elif item == well[_MOST_NODES]:
            detail = f"best {item.numbers[0][1]:.3g} to {well[-1].numbers[0][1]:.3g} GB/s; --json lists them"
            yield Finding(item.group, f"{len(left_out)} others", "ok", detail)


def print_findings(found: Sequence[Finding]) -> None:
    """Print the findings as a table, and the remedies below it."""
    rows = []
    for group, members in groupby(found, key=lambda item: item.group):
        for number, item in enumerate(_shortened([*members])):
            rows.append(("" if number else group, item.name, item.status, one_line(item.detail)))
    show.table((), rows)
    remedies = dict.fromkeys(f"{item.status}: {item.name}: {item.hint}" for item in found if item.hint)
    if remedies:
        click.echo()
    for line in remedies:
        click.echo(one_line(line))
    if not any(item.needs_action for item in found):
        unknown = comma_list(dict.fromkeys(item.name for item in found if item.status == "unknown"))
        click.echo(f"\nok: no problems found{f'; not checked: {unknown}' if unknown else ''}")

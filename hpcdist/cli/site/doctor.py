"""``hpcdist doctor``: check this machine for problems."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.base.errors import ExitCode, comma_list
from hpcdist.checks.bandwidth import grid
from hpcdist.checks.finding import CheckFinding
from hpcdist.checks.host import CHECK_NODES, FILE_SYSTEM
from hpcdist.checks.login import ChosenSite, HostProbe, TimeoutGuard, login_findings
from hpcdist.checks.nodes import DAYS, NodeEvidence, known_nodes
from hpcdist.cli import completion, show
from hpcdist.cli.jobs import runs, spans
from hpcdist.cli.messages import note, one_line
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
from hpcdist.cli.site import doctor_env
from hpcdist.cli.site.doctor_env import lint_variables, site_of_env
from hpcdist.cli.site.doctor_job import CheckJobOptions, run_check_job, wanted_nodes
from hpcdist.cli.site.sites_init import LoginNode, run_survey
from hpcdist.loading import preferences
from hpcdist.planner import lint
from hpcdist.runs.services import Services
from hpcdist.schedulers.surveyors import surveyors

_OF_JOB: Final = ("gpus", "account", "partition", "settings", "tries", "timeout")
_MOST_NODES: Final = 16
_FOUND: Final = ExitCode.PLAN
"""The exit code if a problem was found; notes are not problems."""

_HEADS: Final = ("node", "site", "suspect", "lost", "failed", "last", "run", "why")


@click.command("doctor")
@click.option(
    "--job",
    is_flag=False,
    flag_value="2",
    metavar="[N|LIST]",
    help="Also submit a short job that checks nodes and their network: 2 nodes, N, or those of n[1-4,7].",
)
@click.option(
    "--env",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    shell_complete=completion.files,
    help="Check only the NCCL and MPI variables of this shell, or of FILE (- for stdin).",
)
@click.option("--nodes", is_flag=True, help=f"List the nodes that failed in runs of the last {DAYS} days.")
@site_option
@site_path_option
@runs_dir_option
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs on each node of the job; default: all.")
@click.option("--account", metavar="NAME", help="Account to charge.")
@click.option("--partition", metavar="NAME", help="Partition of the job.")
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
    job: str | None,
    env: str | None,
    nodes: bool,
    site: str | None,
    site_path: tuple[str, ...],
    runs_dir: Path,
    gpus: int | None,
    account: str | None,
    partition: str | None,
    settings: tuple[tuple[str, str], ...],
    tries: tuple[tuple[str, str], ...],
    timeout: float,
    json: bool,
) -> None:
    """Check this machine for problems.

    Each finding is printed with its remedy. Without --job, only this host is checked. The exit code is 0 if
    no problem was found, and 3 otherwise; notes and failed checks do not count as problems.

    --env checks the lines NAME=VALUE and export NAME=VALUE of FILE; lines that set a variable in another way
    are reported. --nodes lists nodes that were lost, or on which tasks failed first; `submit` warns of those
    that are suspect, and excludes them with `batch.exclude_bad_nodes`.
    """
    _refuse_mixed(ctx, has_job=job is not None)
    if nodes:
        _list_nodes(runs_dir, site, json=json)
        return
    if env is not None:
        has_problem = doctor_env.print_env(site_of_env(site, site_path), env or None, json=json)
        raise click.exceptions.Exit(_FOUND if has_problem else 0)
    tried, wanted = grid(tries), wanted_nodes("1" if job is None else job)
    chosen = _chosen(site, site_path)
    services = runs.services()
    found = [*_login(chosen, runs_dir, services)]
    if job is not None:
        own = [("batch.account", account), ("batch.partition", partition)]
        further = ((*((key, value) for key, value in own if value is not None), *settings), timeout, tried)
        options = CheckJobOptions(site, site_path, wanted.number, gpus, partition, *further, wanted.names)
        found = merged(found, [*run_check_job(chosen.site, options, runs_dir, services)])
    if json:
        show.as_json([{**item._asdict(), "numbers": dict(item.numbers)} for item in found])
    else:
        print_findings(found)
    if any(item.needs_action for item in found):
        raise click.exceptions.Exit(_FOUND)


def _refuse_mixed(ctx: click.Context, *, has_job: bool) -> None:
    """Refuse options that have no meaning together.

    Raises:
        UsageError: if there are any.
    """
    modes = given(ctx, lambda name: name in {"job", "env", "nodes"})
    if len(modes) > 1:
        raise click.UsageError(f"{modes[0]} cannot be combined with {modes[1]}.")
    of_job = ", ".join(given(ctx, lambda name: name in _OF_JOB))
    if of_job and not has_job:
        raise click.UsageError(f"{of_job} can only be used with --job.")


# --- ``hpcdist doctor --nodes``


def _list_nodes(runs_dir: Path, site: str | None, *, json: bool) -> None:
    now = time.time()
    found = known_nodes(runs_dir, now, site)
    if json:
        show.as_json([_node_data(node, now) for node in found])
    elif found:
        show.table(_HEADS, (_node_row(node, now) for node in found))
    else:
        note(f"nothing is known against a node{f' of site {site}' if site else ''}")


def _node_row(node: NodeEvidence, now: float) -> tuple[str, ...]:
    last = node.evidence[0]
    counts = (str(count or "-") for count in (node.losses, node.failures))
    suspect = "yes" if node.is_suspect else "no"
    return (node.name, node.site, suspect, *counts, spans.span(now - last.at), last.run, last.text)


def _node_data(node: NodeEvidence, now: float) -> dict[str, Any]:
    """Return a node for JSON; ``age`` in seconds."""
    evidence = [{**one._asdict(), "age": round(now - one.at)} for one in node.evidence]
    return {"node": node.name, "site": node.site, "is_suspect": node.is_suspect, "evidence": evidence}


# --- The checks of this host


def _chosen(name: str | None, site_path: tuple[str, ...]) -> ChosenSite:
    """Return the site as `submit` chooses it, and its file."""
    found = machine_of(name, site_path, preferences.read(os.environ), working=True)
    return ChosenSite(found.site, found.origin, str(found.file))


def _login(chosen: ChosenSite, runs_dir: Path, services: Services) -> Iterator[CheckFinding]:
    scheduler = chosen.site.scheduler
    runner = TimeoutGuard(services.runner)
    node = LoginNode(runner, services.now)
    survey = run_survey(scheduler, node) if scheduler in surveyors else None
    yield from login_findings(chosen, survey, runs_dir, HostProbe(runner, shutil.which))
    odd = lint_variables(chosen.site)
    for item in lint.summarized(odd):
        yield CheckFinding("variables", item.name, item.severity, item.text, item.hint)
    if not odd:
        yield CheckFinding("variables", "this shell", "ok", "no problem with its variables")


def merged(before: Sequence[CheckFinding], after: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return all findings, without those that the job has resolved: whether the nodes share the directory."""
    shared = any((item.name, item.status) == ("records", "ok") for item in after)
    unresolved = (item for item in before if not (shared and item.name == FILE_SYSTEM))
    return [*(item._replace(hint="") if item.hint == CHECK_NODES else item for item in unresolved), *after]


def _shortened(members: Sequence[CheckFinding]) -> Iterator[CheckFinding]:
    """Yield the findings of a group; of nodes that are well, which come the slowest first, only so many."""
    well = [item for item in members if item.numbers and item.status == "ok"]
    left_out = {*well[_MOST_NODES:]}
    for item in members:
        if item not in left_out:
            yield item
        elif item == well[_MOST_NODES]:
            detail = f"best {item.numbers[0][1]:.3g} to {well[-1].numbers[0][1]:.3g} GB/s; --json lists them"
            yield CheckFinding(item.group, f"{len(left_out)} others", "ok", detail)


def print_findings(found: Sequence[CheckFinding]) -> None:
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

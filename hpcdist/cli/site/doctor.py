"""``hpcdist doctor``: check this machine for problems."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.base import resources, source
from hpcdist.base.errors import ExitCode, comma_list
from hpcdist.checks.bandwidth import grid
from hpcdist.checks.finding import CheckFinding
from hpcdist.checks.host import CHECK_NODES, FILE_SYSTEM
from hpcdist.checks.login import ChosenSite, HostProbe, TimeoutGuard, login_findings
from hpcdist.checks.nodes import DAYS, NodeEvidence, known_nodes
from hpcdist.cli import completion, show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note, one_line, print_problems
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
from hpcdist.cli.site.doctor_job import CheckJobOptions, run_check_job, wanted_nodes
from hpcdist.cli.site.sites_init import LoginNode, run_survey
from hpcdist.loading import machine, preferences
from hpcdist.loading.sites import load_site
from hpcdist.plan.values import Origin, Variable
from hpcdist.planner import lint
from hpcdist.planner.lint.finding import LintContext, LintFinding, versions_of
from hpcdist.runs.services import Services
from hpcdist.schedulers.surveyors import surveyors
from hpcdist.site.fabric import JobFacts, text_of, variable_names
from hpcdist.site.model import Site
from hpcdist.site.nodes import libraries_of

_OF_JOB: Final = ("gpus", "account", "partition", "settings", "tries", "timeout")
_MOST_NODES: Final = 16
_FOUND: Final = ExitCode.PLAN
"""The exit code if a problem was found; notes are not problems."""

_HEADS: Final = ("node", "site", "suspect", "lost", "failed", "last", "run", "why")


@click.command("doctor")
@click.option(
    "--job", is_flag=False, flag_value="2", metavar="[N|LIST]",
    help="Also submit a short job that checks nodes and their network: 2 nodes, N, or those of n[1-4,7].",
)  # fmt: skip
@click.option(
    "--env", is_flag=False, flag_value="", metavar="[FILE]", shell_complete=completion.files,
    help="Check only the NCCL and MPI variables of this shell, or of FILE (- for stdin).",
)  # fmt: skip
@click.option("--nodes", is_flag=True, help=f"List the nodes that failed in runs of the last {DAYS} days.")
@site_option
@site_path_option
@runs_dir_option
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs on each node of the job; default: all.")
@click.option("--account", metavar="NAME", help="Account to charge.")
@click.option("--partition", metavar="NAME", help="Partition of the job.")
@override_options[1]
@click.option(
    "--try", "tries", type=assignment, metavar="NAME=VALUE,...", multiple=True,
    help="Measure these values of a variable side by side; repeatable. Values with commas: NAME='A,B|C'.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=900, show_default=True, metavar="SECONDS",
    help="Cancel the job after this time, including its time in the queue.",
)  # fmt: skip
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, job: str | None, env: str | None, nodes: bool, site: str | None,
    site_path: tuple[str, ...], runs_dir: Path, gpus: int | None, account: str | None, partition: str | None,
    settings: tuple[tuple[str, str], ...], tries: tuple[tuple[str, str], ...], timeout: float, json: bool,
) -> None:  # fmt: skip
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
        has_problem = print_env(site_of_env(site, site_path), env or None, json=json)
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
    """Refuse options that have no meaning together."""
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
    return (node.name, node.site, suspect, *counts, show.span(now - last.at), last.run, last.text)


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


# --- ``hpcdist doctor --env``: check the NCCL and MPI variables of this shell or of a file


_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_EXPORT = re.compile(r"\s*(?:(?:export|declare\s+-x)\s+)?(?=[A-Za-z_]\w*=)")
_BETWEEN = (";", "&&", "export")
"""Words that may separate two assignments of a line."""

_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAME = rf"((?:{'|'.join(lint.PREFIXES)})\w+)"
_SET = re.compile(
    rf"^\s*(?:setenv\W+|set\s+-\w+\s+)?{_NAME}\s+[^\s=]|(?<![\w$]){_NAME}[\"']?\]?\s*(?::?=(?!=)|[:,]\s)\s*\S"
)
"""A variable of interest that a line sets, in the syntax of any shell or tool."""

_ECHO = re.compile(r"\s*(?:echo|printf)\b")


def print_env(site: Site | None, file: str | None, *, json: bool) -> bool:
    """Print the findings about the variables of a file or this shell; return whether there is a problem."""
    found = lint_variables(site, file)
    if json:
        show.as_json([item._asdict() | {"origin": str(item.origin)} for item in found])
    else:
        for item in lint.summarized(found):
            click.echo(f"{item.severity}: {item}")
        if not found:
            click.echo("ok: no problems found")
    return any(item.severity != "note" for item in found)


def lint_variables(site: Site | None, file: str | None = None) -> list[LintFinding]:
    """Return the findings about the variables of a file, or of this shell."""
    lines = () if file is None else tuple(_lines(file))
    variables = _of_shell() if file is None else (item for line in lines for item in assigned(*line))
    found = _without_site_notes(lint.findings(variables, lint_context(site)), site)
    return [*found, *(item for line in lines for item in unread(*line))]


def site_of_env(name: str | None, site_path: tuple[str, ...]) -> Site | None:
    """Return the site of ``--site``, ``$HPCDIST_SITE`` or the config, else the detected one, if any."""
    folders = resources.site_folders(site_path)
    if named := machine.explicit_site(name, folders, preferences.read(os.environ)):
        return named.site
    found = machine.search(folders)
    print_problems(found.problems)
    return load_site(found.files[found.detection.site]) if found.detection.site else None


def lint_context(site: Site | None) -> LintContext:
    """Return what variables are checked against that any job on a site, or on any machine, may have."""
    modules = os.environ.get("LOADEDMODULES", "").split(":")
    if site is None:
        return LintContext(versions=versions_of(modules))
    libraries = libraries_of(site.node_types.values())
    library = libraries[0] if len(libraries) == 1 else None
    jobs = [
        JobFacts(nodes, library, inside, framework=framework)
        for nodes, inside, framework in product((1, 2), (False, True), (None, *site.conditional_frameworks()))
    ]
    return LintContext(
        network=site.fabric.network,
        library=library,
        versions=versions_of((*map(text_of, site.modules), *modules)),
        site_values=lint.constant_site_values(site, jobs),
    )


def _without_site_notes(found: Iterable[LintFinding], site: Site | None) -> Iterator[LintFinding]:
    """Yield the findings without notes on variables that the site file itself sets."""
    own = variable_names(site.fabric) if site else []
    yield from (item for item in found if item.severity != "note" or item.name not in own)


def _of_shell() -> Iterator[Variable]:
    for name, value in os.environ.items():
        yield Variable(name=name, value=value, origin=Origin("place", "environment"))


def _lines(file: str) -> Iterator[tuple[str, Origin]]:
    """Yield the lines, each with its origin."""
    label = "<stdin>" if file == "-" else file
    for number, line in enumerate(source.read_text(file).splitlines(), 1):
        yield line, Origin("place", f"{label}:{number}")


def assigned(line: str, origin: Origin) -> Iterator[Variable]:
    """Yield the variables that a line of assignments sets; values that bash would expand are unknown."""
    begin = _EXPORT.match(line)
    if not begin:
        return
    for word in _words(line[begin.end() :]):
        match = _ASSIGNED.fullmatch(word)
        if match:
            expands = "'" not in line and ("$" in match[2] or "`" in match[2])
            yield Variable(name=match[1], value=match[2], origin=origin, shell=expands)
        elif word not in _BETWEEN:
            return


def _words(text: str) -> list[str]:
    """Split a line as bash does, with `;` and operators as words; empty if a quote ends on another line."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    try:
        return [*lexer]
    except ValueError:
        return []


def unread(line: str, origin: Origin) -> Iterator[LintFinding]:
    """Yield a finding for each variable of interest that a line sets in a way that `assigned` cannot read."""
    read = {item.name for item in assigned(line, origin)}
    text = "" if _ECHO.match(line) else _COMMENT.sub("", line)
    for name in dict.fromkeys(match[1] or match[2] for match in _SET.finditer(text)):
        if name not in read:
            happens = f"`{line.strip()}` is not a plain assignment, so the value was not checked"
            write = f"write `export {name}=VALUE` on a line of its own"
            yield LintFinding(name, None, origin, happens, write, "hpcdist doctor --help")

"""``hpcdist doctor``: check this machine for problems."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import click

from hpcdist import lint
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.runs import sentence
from hpcdist.cli.jobs.submit import submit_run
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
from hpcdist.cli.session import machine_of, planned
from hpcdist.cli.site import doctor_launches, doctor_nodes
from hpcdist.cli.site.doctor_nodes import WantedNodes
from hpcdist.cli.site.lint_env import FOUND, lint_variables
from hpcdist.cli.site.sites_init import LoginNode, run_survey
from hpcdist.code.prepare import Code
from hpcdist.doctor import candidates, login, records, tasks
from hpcdist.doctor.batch import ChosenSite
from hpcdist.doctor.candidates import Candidate
from hpcdist.doctor.devices import CHECK_NODES
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.login import HostProbe, TimeoutGuard, program
from hpcdist.doctor.records import Task
from hpcdist.doctor.runs import FILE_SYSTEM
from hpcdist.doctor.tasks import CheckJob
from hpcdist.errors import HpcdistError, Problem, WaitTimeout, comma_list, errors_in
from hpcdist.host import resources
from hpcdist.layers.launchers import launchers
from hpcdist.loading import preferences
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.nodes import suspects, taking_up
from hpcdist.nodes.ledger import Evidence
from hpcdist.planner.pools import Pool, pools
from hpcdist.runs import control, logs, requests
from hpcdist.runs.control import SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.runs.waiting import with_time_limit
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState
from hpcdist.schedulers.surveyors import surveyors
from hpcdist.script import runtime
from hpcdist.site.model import Site

# --- The job of ``hpcdist doctor --job``: planned, rendered and submitted like any other

_PROGRAMS: Final = ("host_info", "connectivity", "allreduce", "bandwidth", "exchanges", "pairing")
_CHANGE_JOB: Final = "change the job with --partition, --account, --qos, --walltime, --nodes, --gpus or --set"
_TAIL_LINES: Final = 20
"""Lines at the end of a log that are searched for the last message."""

_RECORD_TIMEOUT: Final = 10
"""Seconds until a record must be visible here: network file systems lag."""


class CheckJobOptions(NamedTuple):
    """The options of the job; ``settings`` of ``--set``, ``tried`` of ``--try``, ``timeout`` in seconds.

    ``names``: the nodes that it is to have, as many as ``nodes``; empty for any.
    """

    site: str | None
    site_path: tuple[str, ...]
    nodes: int
    gpus: int | None
    partition: str | None
    settings: tuple[tuple[str, str], ...]
    timeout: float
    tried: tuple[Candidate, ...] = ((),)
    names: tuple[str, ...] = ()


def run_check_job(
    site: Site, wanted: CheckJobOptions, runs_dir: Path, services: Services
) -> Iterator[Finding]:
    """Submit the job, wait for it, and yield the findings of its tasks; a refused job is a finding, too.

    Raises:
        ConfigError: if it cannot have nodes by name.
    """
    options = ExperimentOptions(
        str(resources.shipped("templates") / "doctor.yml"),
        wanted.site,
        wanted.site_path,
        settings=(*settings(site, wanted), *wanted.settings),
    )
    try:
        made = planned(options)
        run = _submit(requests.of(made, options, services.runner), wanted.tried, runs_dir, services)
        report = _wait(run, wanted.timeout, services)
    except HpcdistError as error:
        print_problems(problem for problem in error.problems if problem.severity != "error")
        for problem in errors_in(error.problems):
            yield Finding("job", "job", "error", str(problem._replace(hint="")), problem.hint or _CHANGE_JOB)
    else:
        yield from _outcome(made, run, report, services)
        site = made.machine.site
        if report.status.state.is_final:
            yield from doctor_launches.findings(run.directory, wanted.tried, site.measured)
            print_problems(_remember(run, runs_dir, services.now()))


def _submit(plain: SubmitRequest, tried: Sequence[Candidate], runs_dir: Path, services: Services) -> Run:
    """Submit the job with its programs, regardless of earlier submissions."""
    request = plain._replace(
        files=lambda directory: _with_programs(plain.files(directory), tried), code=lambda _: Code()
    )
    return submit_run(request, runs_dir, services, _print_id, again=True)


def _print_id(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}; `hpcdist logs {run.name} -f` follows it")


def settings(site: Site, wanted: CheckJobOptions) -> Iterator[tuple[str, str]]:
    """Yield the settings of the job that its options make.

    Raises:
        ConfigError: as `doctor_nodes.settings`.
    """
    own = dict(sizes(site, wanted))
    yield from (*own.items(), *_pmi(site), *_walltime(wanted.tried))
    nodes = WantedNodes(wanted.nodes, wanted.names)
    yield from doctor_nodes.settings(nodes, site, own["environment.resources"], wanted.settings)


def sizes(site: Site, wanted: CheckJobOptions) -> Iterator[tuple[str, str]]:
    """Yield settings that give each replica its own node: all its GPUs, or most of its CPUs.

    Without a batch system, the replicas share this host.
    """
    yield "environment.replicas.n_workers", str(wanted.nodes - 1)
    pool = _pool(site, wanted.partition)
    alone = not schedulers.get(site.scheduler).is_batch_system
    gpus = wanted.gpus if wanted.gpus is not None else 0 if alone else pool.gpus or 0
    amounts = {"gpu": gpus} if gpus else {}
    if not alone and pool.cpus and not (gpus and gpus == pool.gpus):
        tasks = max(gpus, 1)
        amounts["cpu"] = -(-(pool.cpus // 2 + 1) // tasks) * tasks
    text = ", ".join(f"{name}: {{requests: {number}}}" for name, number in amounts.items())
    for path in ("environment.resources", "environment.replicas.default_worker.resources"):
        yield path, f"{{{text}}}"


def _pmi(site: Site) -> Iterator[tuple[str, str]]:
    """Yield the setting that makes the launcher provide PMI to this job, whose tasks also run an MPI sum.

    On a verified site it is provided anyway (`launcher_choice.pmi_of`).
    """
    mpi = site.options(site.launcher).mpi
    if launchers.get(site.launcher).provides_pmi and mpi and site.status == "unverified":
        yield "batch.launcher", f"{{name: {site.launcher}, args: [--mpi={mpi}]}}"


def _walltime(tried: Sequence[Candidate]) -> Iterator[tuple[str, str]]:
    if len(tried) > 1:
        yield "batch.walltime", f'"{doctor_launches.walltime(tried)}"'


def _pool(site: Site, partition: str | None) -> Pool:
    found = pools(site)
    return next((pool for pool in found if pool.partition == partition), found[0])


def _with_programs(files: Mapping[str, str], tried: Sequence[Candidate]) -> dict[str, str]:
    """Return a run's files with the programs, and the secret by which the tasks authenticate each other."""
    programs = {f"{name}.py": program(name) for name in _PROGRAMS}
    own = {"launches": doctor_launches.file_of(tried), "secret": secrets.token_hex(32)}
    job = {"plan.json": files["plan.json"], "job.sh": doctor_launches.with_launches(files["job.sh"])}
    return {**files, **programs, **own, **job, "job.sum": runtime.listed(job)}


def _wait(run: Run, seconds: float, services: Services) -> Report:
    """Wait for the job to end, and return its report; after so many seconds, or on Ctrl-C, cancel it."""
    try:
        return control.wait([run], with_time_limit(services, seconds))[0]
    except WaitTimeout:
        (last,) = control.status([run], services)
        control.cancel([run], services)
        return last
    except KeyboardInterrupt:
        control.cancel([run], services)
        note(f"{run.name} is cancelled")
        raise


def _outcome(made: Planned, run: Run, report: Report, services: Services) -> Iterator[Finding]:
    if not report.status.state.is_final:
        hint = "increase --timeout, or choose a partition or QOS in which jobs start sooner"
        detail = f"{sentence(report)} at the timeout, so it was cancelled"
        yield Finding("job", "job", "warning", detail, hint)
        return
    well = report.status.state is JobState.COMPLETED
    hint = "" if well else f"read `hpcdist logs {run.name}`"
    detail = sentence(report) if well else f"{sentence(report)}: {_last_line(run.directory)}"
    yield Finding("job", "job", "ok" if well else "error", detail, hint)
    found = _read(run.directory, made.plan.placement.size, services)
    yield from tasks.findings(CheckJob(run.name, made.machine.site, made.plan, found))


def _remember(run: Run, runs_dir: Path, now: float) -> tuple[Problem, ...]:
    """Write the nodes that the job found slow into the ledger of nodes; return what failed."""
    known = suspects.read(runs_dir)
    slow = doctor_launches.slow_nodes(run.directory)
    found = [Evidence(now, run.record.site, node, "slow", run.name, 0, text) for node, text in slow.items()]
    return known.beside(taking_up.entries(found, run.record.token, now)).save()


def _last_line(directory: RunDirectory) -> str:
    lines = (line for file in logs.files(directory) for line in logs.tail(file, _TAIL_LINES))
    return ([line for line in lines if line.strip()] or ["its log is empty"])[-1]


def _read(directory: RunDirectory, size: int, services: Services) -> dict[int, Task]:
    """Return the records that the tasks wrote, by rank."""
    files = {rank: f"outputs/task.{rank}.json" for rank in range(size)}
    for _ in range(_RECORD_TIMEOUT):
        if all((directory.path / file).exists() for file in files.values()):
            break
        services.sleep(1)
    read = {rank: records.read(_text(directory, file)) for rank, file in files.items()}
    return {rank: task for rank, task in read.items() if task}


def _text(directory: RunDirectory, file: str) -> str:
    try:
        return directory.read(file, records.MAX_BYTES).decode(errors="backslashreplace")
    except OSError:
        return ""


# --- ``hpcdist doctor``

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

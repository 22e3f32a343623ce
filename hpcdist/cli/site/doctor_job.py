"""The job of ``hpcdist doctor --job``: planned, rendered and submitted like any other."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base import resources, text_checks
from hpcdist.base.errors import ConfigError, HpcdistError, Place, Problem, WaitTimeout, comma_list, errors_in
from hpcdist.checks.bandwidth import (
    Candidate,
    bandwidth_findings,
    launch_findings,
    launch_lines,
    tool_findings,
    walltime,
    with_launches,
)
from hpcdist.checks.finding import CheckFinding, TaskRecord, read_file
from hpcdist.checks.job import CheckJob, job_findings
from hpcdist.checks.login import program
from hpcdist.cli.jobs.runs import sentence
from hpcdist.cli.jobs.submit import submit_run
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.session import planned
from hpcdist.layers.launchers import launchers
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.planner.pools import pools
from hpcdist.runs import cancelling, job_states, logs, requests, waiting
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitRequest
from hpcdist.runs.waiting import with_time_limit
from hpcdist.schedulers import hostlist, schedulers
from hpcdist.schedulers.base import NodeRequest
from hpcdist.schedulers.job import JobState
from hpcdist.script import runtime
from hpcdist.site.model import Site

_PROGRAMS: Final = ("host_info", "connectivity", "allreduce")
_CHANGE_JOB: Final = "change the job with --partition, --account, --gpus or --set"
_TAIL_LINES: Final = 20
"""Lines at the end of a log that are searched for the last message."""

_RECORD_TIMEOUT: Final = 10
"""Seconds until a record must be visible here: network file systems lag."""


class CheckJobOptions(NamedTuple):
    """The options of the job."""

    site: str | None
    """The site of ``--site``."""
    site_path: tuple[str, ...]
    """The folders of ``--site-path``."""
    nodes: int
    """How many nodes it is to have."""
    gpus: int | None
    """GPUs on each node; None for all."""
    partition: str | None
    """Its partition; None for the default one."""
    settings: tuple[tuple[str, str], ...]
    """The settings of ``--set``."""
    timeout: float
    """Seconds after which it is cancelled."""
    tried: tuple[Candidate, ...] = ((),)
    """The candidates of ``--try``."""
    names: tuple[str, ...] = ()
    """The names of its nodes, as many as ``nodes``; empty for any."""


def run_check_job(
    site: Site, wanted: CheckJobOptions, runs_dir: Path, services: Services
) -> Iterator[CheckFinding]:
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
            yield CheckFinding(
                "job", "job", "error", str(problem._replace(hint="")), problem.hint or _CHANGE_JOB
            )
    else:
        yield from _outcome(made, run, report, services)
        if report.status.state.is_final:
            yield from tool_findings(run.directory, made.plan.placement.size)
            yield from launch_findings(run.directory, wanted.tried)


def _submit(plain: SubmitRequest, tried: Sequence[Candidate], runs_dir: Path, services: Services) -> Run:
    """Submit the job with its programs, regardless of earlier submissions."""
    request = plain._replace(
        files=lambda directory: _with_programs(plain.files(directory), tried), code=lambda _: CodeResult()
    )
    return submit_run(request, runs_dir, services, _print_id, again=True)


def _print_id(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}; `hpcdist logs {run.name} -f` follows it")


def settings(site: Site, wanted: CheckJobOptions) -> Iterator[tuple[str, str]]:
    """Yield the settings of the job that its options make.

    Raises:
        ConfigError: as `node_settings`.
    """
    own = dict(sizes(site, wanted))
    yield from (*own.items(), *_pmi(site), *_walltime(wanted.tried))
    resources_text = own["environment.resources"]
    yield from node_settings(wanted.names, site, resources_text, wanted.settings)


def sizes(site: Site, wanted: CheckJobOptions) -> Iterator[tuple[str, str]]:
    """Yield settings that give each replica its own node: all its GPUs, or most of its CPUs.

    Without a batch system, the replicas share this host.
    """
    yield "environment.replicas.n_workers", str(wanted.nodes - 1)
    found = pools(site)
    pool = next((pool for pool in found if pool.partition == wanted.partition), found[0])
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
        yield "batch.walltime", f'"{walltime(tried)}"'


def _with_programs(files: Mapping[str, str], tried: Sequence[Candidate]) -> dict[str, str]:
    """Return a run's files with the programs, and the secret by which the tasks authenticate each other."""
    programs = {f"{name}.py": program(name) for name in _PROGRAMS}
    own = {"launches": launch_lines(tried), "secret": secrets.token_hex(32)}
    job = {"plan.json": files["plan.json"], "job.sh": with_launches(files["job.sh"])}
    return {**files, **programs, **own, **job, "job.sum": runtime.listed(job)}


def _wait(run: Run, seconds: float, services: Services) -> Report:
    """Wait for the job to end, and return its report; after so many seconds, or on Ctrl-C, cancel it."""
    try:
        return waiting.wait([run], with_time_limit(services, seconds))[0]
    except WaitTimeout:
        (last,) = job_states.status([run], services)
        cancelling.cancel([run], services)
        return last
    except KeyboardInterrupt:
        cancelling.cancel([run], services)
        note(f"{run.name} is cancelled")
        raise


def _outcome(made: Planned, run: Run, report: Report, services: Services) -> Iterator[CheckFinding]:
    if not report.status.state.is_final:
        hint = "increase --timeout, or choose a partition or QOS in which jobs start sooner"
        detail = f"{sentence(report)} at the timeout, so it was cancelled"
        yield CheckFinding("job", "job", "warning", detail, hint)
        return
    well = report.status.state is JobState.COMPLETED
    hint = "" if well else f"read `hpcdist logs {run.name}`"
    detail = sentence(report) if well else f"{sentence(report)}: {_last_line(run.directory)}"
    yield CheckFinding("job", "job", "ok" if well else "error", detail, hint)
    names = {rank: f"outputs/task.{rank}.json" for rank in range(made.plan.placement.size)}
    for _ in range(_RECORD_TIMEOUT):
        if all((run.directory.path / name).exists() for name in names.values()):
            break
        services.sleep(1)
    read = {rank: read_file(run.directory, name, TaskRecord) for rank, name in names.items()}
    found = {rank: task for rank, task in read.items() if task}
    yield from job_findings(CheckJob(run.name, made.machine.site, made.plan, found))
    yield from bandwidth_findings(found.get(0), made.machine.site.measured)


def _last_line(directory: RunDirectory) -> str:
    lines = (line for file in logs.files(directory) for line in logs.tail(file, _TAIL_LINES))
    return ([line for line in lines if line.strip()] or ["its log is empty"])[-1]


# --- Its nodes: how many, or which

_WRITE: Final = "write a number, such as 4, or names, such as n[1-4,7]"

Setting = tuple[str, str]


class WantedNodes(NamedTuple):
    """How many nodes a job is to have, and their names where it wants these alone."""

    number: int
    names: tuple[str, ...] = ()


def wanted_nodes(text: str) -> WantedNodes:
    """Return what ``--job`` wants: a number of nodes, or names of nodes.

    Raises:
        ConfigError: if it is neither a number nor names of nodes, each of them once.
    """
    place = Place(f"--job={text}", 0, 0)
    if text.isascii() and text.isdecimal():
        if not 0 < int(text[:9]) <= hostlist.LIMIT:
            raise ConfigError(Problem(f"no job has {text[:9]} nodes", hint=_WRITE, place=place))
        return WantedNodes(int(text[:9]))
    try:
        names = hostlist.expand(text)
    except ValueError as error:
        raise ConfigError(Problem(str(error), hint=_WRITE, place=place)) from None
    if problems := [problem._replace(path=(), place=place) for problem in _problems(names)]:
        raise ConfigError(*problems)
    return WantedNodes(len(names), tuple(names))


def _problems(names: Sequence[str]) -> Iterator[Problem]:
    if not names:
        yield Problem("there is no node in it", hint=_WRITE)
    yield from text_checks.node_problems(names, ())
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        message = f"{comma_list(twice)} {'is' if len(twice) == 1 else 'are'} in it twice"
        yield Problem(message, hint="name each node once")


def node_settings(
    names: Sequence[str], site: Site, resources: str, others: Sequence[Setting]
) -> Iterator[Setting]:
    """Yield the settings of an experiment, a replica a node, by which it gets the nodes with these names.

    ``resources``: those of each replica; ``others``: further settings, which may not replace these.

    Raises:
        ConfigError: if the batch system cannot be asked for nodes by name, or ``others`` replace it.
    """
    if not names:
        return
    place = Place(f"--job={hostlist.compress(names)}", 0, 0)
    request = schedulers.get(site.scheduler).request_nodes(names)
    if request is None:
        raise ConfigError(_never(site)._replace(place=place))
    own = dict(_of_request(request, resources))
    for name, _ in others:
        if any(name.startswith(key) or key.startswith(f"{name}.") for key in own):
            message = f"it replaces how {site.scheduler} is asked for the nodes of --job"
            hint = "remove it, or give --job a number"
            raise ConfigError(Problem(message, hint=hint, place=Place(f"--set {name}", 0, 0)))
    yield from own.items()


def _never(site: Site) -> Problem:
    if not schedulers.get(site.scheduler).is_batch_system:
        return Problem(f"all jobs of site {site.name} run on this machine", hint="give --job a number")
    message = f"hpcdist does not know how {site.scheduler} is asked for nodes by name"
    hint = "give --job a number, and --set batch.directives what names them there"
    return Problem(message, hint=hint)


def _of_request(request: NodeRequest, resources: str) -> Iterator[Setting]:
    if request.directive:
        yield "batch.directives", f'["{request.directive}"]'
    if request.constraint:
        yield "batch.constraint", f'"{request.constraint}"'
    if request.of_each:
        first, *rest = (f'{{constraint: "{text}"}}' for text in request.of_each)
        entries = (
            f"{{index: {index}, resources: {resources}, node_selector: {text}}}"
            for index, text in enumerate(rest)
        )
        yield "environment.node_selector", first
        yield "environment.replicas.worker", f"[{', '.join(entries)}]"

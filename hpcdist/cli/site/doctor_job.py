"""The job of ``hpcdist doctor --job``: planned, rendered and submitted like any other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.cli.jobs.runs import sentence
from hpcdist.cli.jobs.submit import submit_run
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.session import planned
from hpcdist.cli.site import doctor_launches, doctor_nodes
from hpcdist.cli.site.doctor_nodes import WantedNodes
from hpcdist.code.prepare import Code
from hpcdist.doctor import records, tasks
from hpcdist.doctor.candidates import Candidate
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.login import program
from hpcdist.doctor.records import Task
from hpcdist.doctor.tasks import CheckJob
from hpcdist.errors import HpcdistError, Problem, WaitTimeout, errors_in
from hpcdist.host import resources
from hpcdist.layers.launchers import launchers
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.nodes import suspects, taking_up
from hpcdist.nodes.evidence import Evidence
from hpcdist.planner.pools import Pool, pools
from hpcdist.runs import control, logs, requests
from hpcdist.runs.control import SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.runs.waiting import with_time_limit
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState
from hpcdist.script import runtime
from hpcdist.site.model import Site

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

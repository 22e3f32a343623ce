"""The job of ``hpcdist doctor --job``: planned, rendered and submitted as any other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.cli.jobs.runs import sentence
from hpcdist.cli.jobs.submit import request_of, submitted
from hpcdist.cli.jobs.wait import TimeIsUp, patient
from hpcdist.cli.session import planned
from hpcdist.cli.tell import note, tell
from hpcdist.doctor import records, tasks
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.login import program
from hpcdist.doctor.records import Task
from hpcdist.doctor.tasks import CheckJob
from hpcdist.errors import HpcdistError, errors_in
from hpcdist.host import resources
from hpcdist.layers.launchers import launchers
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.planner.pools import Pool, pools
from hpcdist.runs import control, logs
from hpcdist.runs.control import Request
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState
from hpcdist.site.model import Site

_PROGRAMS: Final = ("host_info", "connectivity", "allreduce")
_OTHERWISE: Final = "ask for another job: --partition, --account, --qos, --walltime, --nodes, --gpus or --set"
_LAST: Final = 20
"""So many lines of a log are looked through for what it says last."""

_PATIENCE: Final = 10
"""Seconds for which a record may still be on its way here: network file systems are late."""


class Wanted(NamedTuple):
    """The job as the command line wants it; ``settings`` are those of ``--set``, ``timeout`` in seconds."""

    site: str | None
    site_path: tuple[str, ...]
    nodes: int
    gpus: int | None
    partition: str | None
    settings: tuple[tuple[str, str], ...]
    timeout: float


def trial(site: Site, wanted: Wanted, runs_dir: Path, services: Services) -> Iterator[Finding]:
    """Submit the job, wait for it, and yield what its tasks found; a refusal is a finding too."""
    options = ExperimentOptions(
        str(resources.shipped("templates") / "doctor.yml"),
        wanted.site,
        wanted.site_path,
        settings=(*sizes(site, wanted), *_pmi(site), *wanted.settings),
    )
    try:
        made = planned(options)
        run = _submitted(request_of(made, options), runs_dir, services)
        report = _waited(run, wanted.timeout, services)
    except HpcdistError as error:
        tell(problem for problem in error.problems if problem.severity != "error")
        for problem in errors_in(error.problems):
            yield Finding("job", "job", "error", str(problem._replace(hint="")), problem.hint or _OTHERWISE)
    else:
        yield from _outcome(made, run, report, services)


def _submitted(plain: Request, runs_dir: Path, services: Services) -> Run:
    """Submit the job with its programs beside it, once, whatever became of earlier ones."""
    request = plain._replace(files=lambda directory: _with_programs(plain.files(directory)))
    return submitted(request, runs_dir, services, _say, again=True)


def _say(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}; `hpcdist logs {run.name} -f` follows it")


def sizes(site: Site, wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield settings by which each replica has a node of its own: all its GPUs, or most of its CPUs.

    Where there is no batch system they share this host.
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
    """Yield the setting by which the launcher gives PMI also to this job, whose tasks sum by MPI besides.

    Where the site is verified it is given anyway (`starting.pmi_of`).
    """
    mpi = site.options(site.launcher).mpi
    if launchers.get(site.launcher).gives_pmi and mpi and site.status == "unverified":
        yield "batch.launcher", f"{{name: {site.launcher}, args: [--mpi={mpi}]}}"


def _pool(site: Site, partition: str | None) -> Pool:
    found = pools(site)
    return next((pool for pool in found if pool.partition == partition), found[0])


def _with_programs(files: Mapping[str, str]) -> dict[str, str]:
    """Return a run's files with the programs, and the secret by which the tasks know each other."""
    programs = {f"{name}.py": program(name) for name in _PROGRAMS}
    return {**files, **programs, "secret": secrets.token_hex(32)}


def _waited(run: Run, seconds: float, services: Services) -> Report:
    """Wait until the job is over, and return how; after so many seconds, or on a break, cancel it."""
    try:
        return control.wait([run], patient(services, seconds))[0]
    except TimeIsUp:
        (last,) = control.status([run], services)
        control.cancel([run], services)
        return last
    except KeyboardInterrupt:
        control.cancel([run], services)
        note(f"{run.name} is cancelled")
        raise


def _outcome(made: Planned, run: Run, report: Report, services: Services) -> Iterator[Finding]:
    if not report.status.state.is_final:
        hint = "give it more time with --timeout, or choose a partition or QOS in which jobs begin sooner"
        detail = f"{sentence(report)} when the time was up, so it is cancelled"
        yield Finding("job", "job", "warning", detail, hint)
        return
    well = report.status.state is JobState.COMPLETED
    hint = "" if well else f"read `hpcdist logs {run.name}`"
    detail = sentence(report) if well else f"{sentence(report)}: {_last_line(run.directory)}"
    yield Finding("job", "job", "ok" if well else "error", detail, hint)
    found = _read(run.directory, made.plan.placement.size, services)
    yield from tasks.findings(CheckJob(run.name, made.machine.site, made.plan, found))


def _last_line(directory: RunDirectory) -> str:
    lines = (line for file in logs.files(directory) for line in logs.tail(file, _LAST))
    return ([line for line in lines if line.strip()] or ["its log is empty"])[-1]


def _read(directory: RunDirectory, size: int, services: Services) -> dict[int, Task]:
    """Return the records of the tasks by rank, as far as there are any."""
    files = {rank: f"outputs/task.{rank}.json" for rank in range(size)}
    for _ in range(_PATIENCE):
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

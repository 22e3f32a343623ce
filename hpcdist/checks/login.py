"""Checks of a login node: the site, its batch system, launchers and containers; then all checks of a host."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base.command import Command, Completed, Runner, python
from hpcdist.checks.finding import (
    CheckFinding,
    HostRecord,
    TaskRecord,
    Which,
    failure,
    read_record,
    result_of,
    run_it_yourself,
)
from hpcdist.checks.host import (
    CHECK_NODES,
    folder_commands,
    folder_findings,
    gpu_commands,
    limit_findings,
    login_gpus,
    network_findings,
    software_findings,
)
from hpcdist.layers.containers import containers
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Launcher
from hpcdist.schedulers import answers as scheduler_answers
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import LibraryStatus, Scheduler
from hpcdist.schedulers.surveyors import SurveyAnswers
from hpcdist.site.model import Site
from hpcdist.site.survey import Survey

_FLAVOURS: Final = {
    "openmpi": r"Open ?MPI|OpenRTE|PRRTE",
    "intel": r"Intel\(R\) MPI",
    "mpich": r"HYDRA|MPICH",
    "pals": r"PALS",
}
"""What ``mpirun --version`` prints: tried on Open MPI 4.1 and MPICH 4.0, the others from their guides."""


class ChosenSite(NamedTuple):
    """The site, how it was chosen (``--site``, detected), and its file."""

    site: Site
    origin: str
    file: str


def version(launcher: Launcher) -> Command:
    """Return the command that prints the version of a launcher's program."""
    return Command((launcher.program, *launcher.version_words), timeout=20)


def site_commands(site: Site, which: Which) -> Iterator[Command]:
    """Yield the commands of these checks, for launchers that are installed."""
    for launcher in _candidates(site):
        if launcher.version_words and which(launcher.program):
            yield version(launcher)
    if command := _lists_pmi_types(site, which):
        yield command


def site_findings(
    chosen: ChosenSite,
    survey: Survey | None,
    library: LibraryStatus | None,
    which: Which,
    answers: SurveyAnswers,
) -> Iterator[CheckFinding]:
    """Yield the findings."""
    yield _site(chosen)
    yield from _scheduler(chosen.site, survey)
    if library:
        yield CheckFinding(
            "site", library.name, "note" if library.hint else "ok", library.detail, library.hint
        )
    for launcher in _candidates(chosen.site):
        path = which(launcher.program)
        if path:
            yield _installed(chosen.site, launcher, path, answers)
        elif launcher.name == chosen.site.launcher:
            yield _missing(chosen.site, launcher.program)
    if command := _lists_pmi_types(chosen.site, which):
        yield _pmi(chosen.site, command, answers)
    for name in dict.fromkeys(section.runtime for _, section in chosen.site.containers()):
        yield _container(name, which)


def _site(chosen: ChosenSite) -> CheckFinding:
    site = chosen.site
    detail = f"{site.name} ({chosen.origin}), {chosen.file}"
    if site.partitions or not schedulers.get(site.scheduler).is_batch_system:
        return CheckFinding("site", "site", "ok", detail)
    hint = "write a site file of this machine: `hpcdist sites init NAME` creates one here"
    return CheckFinding("site", "site", "note", f"{detail}: it describes no nodes", hint)


def _scheduler(site: Site, survey: Survey | None) -> Iterator[CheckFinding]:
    if not schedulers.get(site.scheduler).is_batch_system:
        yield CheckFinding("site", "scheduler", "ok", "none: jobs are processes of this machine")
        return
    if survey is None:
        detail = f"{site.scheduler}: its plug-in has no survey, so it was not checked"
        yield CheckFinding("site", "scheduler", "unknown", detail, "test it with `hpcdist doctor --job`")
        return
    if not (survey.kinds or survey.partitions):
        why = "; ".join(dict.fromkeys(item.why for item in survey.failures)) or "it listed no nodes"
        hint = "load its module, or ask the centre whether this host may submit jobs"
        yield CheckFinding("site", "scheduler", "error", f"{survey.scheduler} does not answer: {why}", hint)
        return
    yield CheckFinding("site", "scheduler", "ok", survey.title)
    for item in survey.failures:
        yield CheckFinding("site", item.command, "unknown", item.why, run_it_yourself(item.command))


def _candidates(site: Site) -> Iterator[Launcher]:
    """Yield one launcher for each program: the site's own first, then others for its scheduler."""
    others = (item for item in launchers.objects() if site.scheduler in item.schedulers)
    programs: set[str] = set()
    for launcher in (*map(launchers.get, (site.launcher, *site.launchers)), *others):
        if launcher.program not in programs:
            programs.add(launcher.program)
            yield launcher


def _installed(site: Site, launcher: Launcher, path: str, answers: SurveyAnswers) -> CheckFinding:
    program = launcher.program
    if not launcher.version_words:
        return CheckFinding("launchers", program, "ok", path)
    done = result_of(answers, version(launcher))
    if not done.ok:
        detail = f"{path}; {failure(done)}"
        return CheckFinding("launchers", program, "unknown", detail, run_it_yourself(done.command))
    first = next(iter(done.stdout.strip().splitlines()), "it does not print its version")
    return _checked_mpi(site, CheckFinding("launchers", program, "ok", f"{path}: {first}"), done.stdout)


def _checked_mpi(site: Site, finding: CheckFinding, text: str) -> CheckFinding:
    """Return the finding; an error if the program belongs to another MPI than the site's launcher needs."""
    own = launchers.get(site.launcher)
    fitting = own.mpi_flavours
    flavour = next((name for name, words in _FLAVOURS.items() if re.search(words, text)), "")
    if own.program != finding.name or not fitting or flavour in fitting:
        return finding
    if not flavour:
        detail = f"{finding.detail}; its MPI is not recognized"
        hint = f"launcher {site.launcher} is for {' and '.join(fitting)}: test it with `hpcdist doctor --job`"
        return finding._replace(status="unknown", detail=detail, hint=hint)
    other = next(item.name for item in launchers.objects() if flavour in item.mpi_flavours)
    hint = f"launcher {site.launcher} is for {' and '.join(fitting)}: load such a module, or write"
    return finding._replace(status="error", hint=f"{hint} `launcher: {other}` in the site file")


def _missing(site: Site, program: str) -> CheckFinding:
    detail = f"there is no {program} on PATH, though it is the site's launcher"
    if site.modules or site.source or site.setup:
        return CheckFinding(
            "launchers", program, "note", f"{detail}; the job's setup may provide it", CHECK_NODES
        )
    hint = "load its module here and name it in `modules` of the site file, or choose another launcher"
    return CheckFinding("launchers", program, "error", detail, hint)


def _lists_pmi_types(site: Site, which: Which) -> Command | None:
    """Return the command that lists types of PMI, if jobs of the site may request one."""
    scheduler = schedulers.get(site.scheduler)
    name = scheduler.pmi_launcher
    if not name or not which(launchers.get(name).program):
        return None
    may_ask = name == site.launcher or site.options(name).mpi is not None
    return scheduler.list_pmi_types() if may_ask else None


def _pmi(site: Site, command: Command, answers: SurveyAnswers) -> CheckFinding:
    """Compare the site's type of PMI with those that the batch system has."""
    scheduler = schedulers.get(site.scheduler)
    launcher = scheduler.pmi_launcher
    name, configured, done = f"{launcher} --mpi", site.options(launcher).mpi, result_of(answers, command)
    types = scheduler.read_pmi_types(done)
    if not done.ok or not types:
        why = failure(done) if not done.ok else f"{command} listed no types"
        return CheckFinding("launchers", name, "unknown", why, run_it_yourself(command))
    listed = ", ".join(sorted(types))
    if configured in (None, *types):
        return CheckFinding("launchers", name, "ok", f"{configured or 'not set'}, of {listed}")
    detail = f"the site sets {configured}, but {launcher} has {listed}"
    hint = f"write one of those as `launchers: {{{launcher}: {{mpi: {types[0]}}}}}` in the site file"
    return CheckFinding("launchers", name, "error", detail, hint)


def _container(name: str, which: Which) -> CheckFinding:
    program = containers.get(name).program
    path = which(program) if program else None
    if path:
        return CheckFinding("containers", name, "ok", path)
    if program:
        detail = f"there is no {program} on PATH here; the nodes may have it"
        return CheckFinding("containers", name, "note", detail, "check for its module, or ask the centre")
    detail = "it is part of the launcher, which cannot be asked"
    return CheckFinding("containers", name, "unknown", detail, "ask the centre, or try a job with an image")


# --- All checks of this host: only these start processes

PYTHONS: Final = ("python", "python3", sys.executable)
"""The packages of the first that runs are listed: jobs start ``python``."""


class HostProbe(NamedTuple):
    """How a host is examined; tests pass a fake one, also for a scheduler's library."""

    runner: Runner
    which: Which
    library: Callable[[Scheduler, Runner], LibraryStatus | None] = lambda scheduler, runner: (
        scheduler.library_status(runner)
    )


class TimeoutGuard:
    """A runner that does not start a program again once it has timed out.

    So a controller that is down costs one timeout, not one for each command.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._hung: set[str] = set()

    def run(self, command: Command) -> Completed:
        """Run the command, or return at once that it timed out."""
        if command.argv[0] in self._hung:
            return Completed(command, 124, timed_out=True)
        done = self._runner.run(command)
        if done.timed_out:
            self._hung.add(command.argv[0])
        return done


def program(name: str) -> str:
    """Return the text of a standalone program."""
    return files("hpcdist.checks").joinpath(f"{name}.py").read_text(encoding="utf-8")


def login_findings(
    chosen: ChosenSite, survey: Survey | None, folder: Path, probe: HostProbe
) -> Iterator[CheckFinding]:
    """Run the checks of this host, and yield their findings; ``survey``: None without a batch system."""
    site, which = chosen.site, probe.which
    scheduler = schedulers.get(site.scheduler)
    has_batch_system = scheduler.is_batch_system
    commands = (*site_commands(site, which), *gpu_commands(which), *folder_commands(folder))
    answers = SurveyAnswers(tuple(map(probe.runner.run, commands)))
    library = probe.library(scheduler, probe.runner)
    yield from site_findings(chosen, survey, library, which, answers)
    host, failures = _host(probe)
    yield from failures
    if host:
        gpus = has_batch_system and any(kind.gpus != 0 for kind in site.node_types.values())
        yield from software_findings(host, gpus=gpus)
        yield from limit_findings(host, site.fabric.network)
        yield from network_findings(host, site.fabric, "login" if has_batch_system else "node")
    yield login_gpus(which, answers)
    yield from folder_findings(folder, answers, alone=not has_batch_system)


def _host(probe: HostProbe) -> tuple[HostRecord | None, list[CheckFinding]]:
    """Return what the first Python that runs reports, and a finding for each one that is missing or fails."""
    found: list[CheckFinding] = []
    for name in PYTHONS:
        if probe.which(name) is None:
            found.append(_absent(name, probe.which))
            continue
        words = python(name, "exec(sys.stdin.read())")
        done = probe.runner.run(Command(words, stdin=program("host_info"), timeout=60))
        if task := read_record(done.stdout, TaskRecord):
            return task.host, found
        found.append(CheckFinding("python", name, "error", _why(done), "reinstall it, or load another one"))
    return None, found


def _absent(name: str, which: Which) -> CheckFinding:
    detail = f"there is no {name} on PATH"
    hint = "load its module, or activate the environment with which jobs are to run"
    if name == "python" and which("python3"):
        return CheckFinding("python", name, "note", detail, f"write python3 in `run.cmd`; or {hint}")
    return CheckFinding("python", name, "warning", detail, hint)


def _why(done: Completed) -> str:
    """Return the last line of the traceback, or why there is none."""
    last = next(reversed(done.stderr.strip().splitlines()), None)
    words = scheduler_answers.why(done, last) if not done.ok else "its output cannot be read"
    return f"{done.command.argv[0]} cannot be run: {words}"

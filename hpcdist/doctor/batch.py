"""Checks of the site, its batch system, its launchers and its container runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.doctor.devices import CHECK_NODES
from hpcdist.doctor.finding import Finding, Which, failure, result_of, run_it_yourself
from hpcdist.host.command import Command
from hpcdist.layers.containers import containers
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Launcher
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import LibraryStatus
from hpcdist.schedulers.surveyors import Answers
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


def commands(site: Site, which: Which) -> Iterator[Command]:
    """Yield the commands of these checks, for launchers that are installed."""
    for launcher in _candidates(site):
        if launcher.version_words and which(launcher.program):
            yield version(launcher)
    if command := _lists_pmi_types(site, which):
        yield command


def findings(
    chosen: ChosenSite, survey: Survey | None, library: LibraryStatus | None, which: Which, answers: Answers
) -> Iterator[Finding]:
    """Yield the findings."""
    yield _site(chosen)
    yield from _scheduler(chosen.site, survey)
    if library:
        yield Finding("site", library.name, "note" if library.hint else "ok", library.detail, library.hint)
    yield from _launchers(chosen.site, which, answers)
    if command := _lists_pmi_types(chosen.site, which):
        yield _pmi(chosen.site, command, answers)
    for name in dict.fromkeys(section.runtime for _, section in chosen.site.containers()):
        yield _container(name, which)


def _site(chosen: ChosenSite) -> Finding:
    site = chosen.site
    detail = f"{site.name} ({chosen.origin}), {chosen.file}"
    if site.partitions or not schedulers.get(site.scheduler).is_batch_system:
        return Finding("site", "site", "ok", detail)
    hint = "write a site file of this machine: `hpcdist sites init NAME` creates one here"
    return Finding("site", "site", "note", f"{detail}: it describes no nodes", hint)


def _scheduler(site: Site, survey: Survey | None) -> Iterator[Finding]:
    if not schedulers.get(site.scheduler).is_batch_system:
        yield Finding("site", "scheduler", "ok", "none: jobs are processes of this machine")
        return
    if survey is None:
        detail = f"{site.scheduler}: its plug-in has no survey, so it was not checked"
        yield Finding("site", "scheduler", "unknown", detail, "test it with `hpcdist doctor --job`")
        return
    if not (survey.kinds or survey.partitions):
        why = "; ".join(dict.fromkeys(item.why for item in survey.failures)) or "it listed no nodes"
        hint = "load its module, or ask the centre whether this host may submit jobs"
        yield Finding("site", "scheduler", "error", f"{survey.scheduler} does not answer: {why}", hint)
        return
    yield Finding("site", "scheduler", "ok", survey.title)
    for item in survey.failures:
        yield Finding("site", item.command, "unknown", item.why, run_it_yourself(item.command))


def _candidates(site: Site) -> Iterator[Launcher]:
    """Yield one launcher for each program: the site's own first, then others for its scheduler."""
    others = (item for item in launchers.objects() if site.scheduler in item.schedulers)
    programs: set[str] = set()
    for launcher in (*map(launchers.get, (site.launcher, *site.launchers)), *others):
        if launcher.program not in programs:
            programs.add(launcher.program)
            yield launcher


def _launchers(site: Site, which: Which, answers: Answers) -> Iterator[Finding]:
    for launcher in _candidates(site):
        path = which(launcher.program)
        if path:
            yield _installed(site, launcher, path, answers)
        elif launcher.name == site.launcher:
            yield _missing(site, launcher.program)


def _installed(site: Site, launcher: Launcher, path: str, answers: Answers) -> Finding:
    program = launcher.program
    if not launcher.version_words:
        return Finding("launchers", program, "ok", path)
    done = result_of(answers, version(launcher))
    if not done.ok:
        detail = f"{path}; {failure(done)}"
        return Finding("launchers", program, "unknown", detail, run_it_yourself(done.command))
    first = next(iter(done.stdout.strip().splitlines()), "it does not print its version")
    return _checked_mpi(site, Finding("launchers", program, "ok", f"{path}: {first}"), done.stdout)


def _checked_mpi(site: Site, finding: Finding, text: str) -> Finding:
    """Return the finding; an error where the program is of another MPI than the site's launcher requires."""
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


def _missing(site: Site, program: str) -> Finding:
    detail = f"there is no {program} on PATH, though it is the site's launcher"
    if site.modules or site.source or site.setup:
        return Finding("launchers", program, "note", f"{detail}; the job's setup may provide it", CHECK_NODES)
    hint = "load its module here and name it in `modules` of the site file, or choose another launcher"
    return Finding("launchers", program, "error", detail, hint)


def _lists_pmi_types(site: Site, which: Which) -> Command | None:
    """Return the command that lists types of PMI, where jobs of the site may ask for one."""
    scheduler = schedulers.get(site.scheduler)
    name = scheduler.pmi_launcher
    if not name or not which(launchers.get(name).program):
        return None
    may_ask = name == site.launcher or site.options(name).mpi is not None
    return scheduler.list_pmi_types() if may_ask else None


def _pmi(site: Site, command: Command, answers: Answers) -> Finding:
    """Compare the site's type of PMI with those that the batch system has."""
    scheduler = schedulers.get(site.scheduler)
    launcher = scheduler.pmi_launcher
    name, configured, done = f"{launcher} --mpi", site.options(launcher).mpi, result_of(answers, command)
    types = scheduler.read_pmi_types(done)
    if not done.ok or not types:
        why = failure(done) if not done.ok else f"{command} listed no types"
        return Finding("launchers", name, "unknown", why, run_it_yourself(command))
    listed = ", ".join(sorted(types))
    if configured in (None, *types):
        return Finding("launchers", name, "ok", f"{configured or 'not set'}, of {listed}")
    detail = f"the site sets {configured}, but {launcher} has {listed}"
    hint = f"write one of those as `launchers: {{{launcher}: {{mpi: {types[0]}}}}}` in the site file"
    return Finding("launchers", name, "error", detail, hint)


def _container(name: str, which: Which) -> Finding:
    program = containers.get(name).program
    path = which(program) if program else None
    if path:
        return Finding("containers", name, "ok", path)
    if program:
        detail = f"there is no {program} on PATH here; the nodes may have it"
        return Finding("containers", name, "note", detail, "check for its module, or ask the centre")
    detail = "it is part of the launcher, which cannot be asked"
    return Finding("containers", name, "unknown", detail, "ask the centre, or try a job with an image")

"""Checks of the site, its batch system, its launchers and its container runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.doctor.devices import CHECK_NODES
from hpcdist.doctor.finding import Finding, Which, failure, result_of, run_it_yourself
from hpcdist.host.command import Command
from hpcdist.layers.containers import containers
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Launcher
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.slurm.reader import Probe
from hpcdist.schedulers.slurm.survey import MPI, mpi_types
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
    if which("srun"):
        yield MPI


def findings(
    chosen: ChosenSite, survey: Survey | None, probe: Probe | None, which: Which, answers: Answers
) -> Iterator[Finding]:
    """Yield the findings."""
    yield _site(chosen)
    yield from _scheduler(chosen.site, survey)
    if probe:
        yield _pyslurm(probe)
    yield from _launchers(chosen.site, which, answers)
    yield from _mpi(chosen.site, which, answers)
    yield from _container(chosen.site, which)


def _pyslurm(probe: Probe) -> Finding:
    detail = probe.why if probe.works else f"Slurm's commands are used instead: {probe.why}"
    return Finding("site", "pyslurm", "note" if probe.hint else "ok", detail, probe.hint)


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


def _mpi(site: Site, which: Which, answers: Answers) -> Iterator[Finding]:
    """Compare the site's setting for ``srun --mpi`` with the types that this Slurm has."""
    configured = site.options("srun").mpi
    if not which("srun") or (site.launcher != "srun" and configured is None):
        return
    done = result_of(answers, MPI)
    text = done.stdout + done.stderr
    types = [*mpi_types(text), *re.findall(r"\b(pmix_\w+)", text)]
    if not done.ok or not types:
        why = failure(done) if not done.ok else f"{MPI} listed no types"
        yield Finding("launchers", "srun --mpi", "unknown", why, run_it_yourself(MPI))
    elif configured in (None, *types):
        detail = f"{configured or 'not set'}, of {', '.join(sorted({*types}))}"
        yield Finding("launchers", "srun --mpi", "ok", detail)
    else:
        detail = f"the site sets {configured}, but Slurm has {', '.join(sorted({*types}))}"
        hint = f"write one of those as `launchers: {{srun: {{mpi: {_preferred(types)}}}}}` in the site file"
        yield Finding("launchers", "srun --mpi", "error", detail, hint)


def _preferred(types: Sequence[str]) -> str:
    return next((name for name in ("pmix", "cray_shasta", "pmi2") if name in types), types[0])


def _container(site: Site, which: Which) -> Iterator[Finding]:
    if site.container is None:
        return
    name = site.container.runtime
    program = containers.get(name).program
    path = which(program) if program else None
    if path:
        yield Finding("containers", name, "ok", path)
    elif program:
        detail = f"there is no {program} on PATH here; the nodes may have it"
        yield Finding("containers", name, "note", detail, "check for its module, or ask the centre")
    else:
        detail = "it is part of the launcher, which cannot be asked"
        yield Finding("containers", name, "unknown", detail, "ask the centre, or try a job with an image")

"""The site, its batch system, its launchers and what runs its containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.doctor.devices import TELLS_MORE
from hpcdist.doctor.finding import Finding, Which, by_hand, failure, said
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
"""What ``mpirun --version`` says, tried on Open MPI 4.1 and MPICH 4.0; the others as their guides show it."""


class Chosen(NamedTuple):
    """The site, why it is this one, and its file."""

    site: Site
    origin: str
    file: str


def version(launcher: Launcher) -> Command:
    """Return what asks a launcher's program for its version."""
    return Command((launcher.program, *launcher.version_words), timeout=20)


def ask(site: Site, which: Which) -> Iterator[Command]:
    """Yield what to ask of launchers that are there."""
    for launcher in _candidates(site):
        if launcher.version_words and which(launcher.program):
            yield version(launcher)
    if which("srun"):
        yield MPI


def findings(
    chosen: Chosen, survey: Survey | None, probe: Probe | None, which: Which, answers: Answers
) -> Iterator[Finding]:
    """Yield what was found."""
    yield _site(chosen)
    yield from _scheduler(chosen.site, survey)
    if probe:
        yield _pyslurm(probe)
    yield from _launchers(chosen.site, which, answers)
    yield from _mpi(chosen.site, which, answers)
    yield from _container(chosen.site, which)


def _pyslurm(probe: Probe) -> Finding:
    seen = probe.why if probe.works else f"Slurm's commands are asked instead: {probe.why}"
    return Finding("site", "pyslurm", "note" if probe.hint else "ok", seen, probe.hint)


def _site(chosen: Chosen) -> Finding:
    site = chosen.site
    seen = f"{site.name} ({chosen.origin}), {chosen.file}"
    if site.partitions or not schedulers.get(site.scheduler).is_batch_system:
        return Finding("site", "site", "ok", seen)
    do = "write a site file of this machine: `hpcdist sites init NAME` begins one with what can be seen here"
    return Finding("site", "site", "note", f"{seen}: nothing is known of its nodes", do)


def _scheduler(site: Site, survey: Survey | None) -> Iterator[Finding]:
    if not schedulers.get(site.scheduler).is_batch_system:
        yield Finding("site", "scheduler", "ok", "none: jobs are processes of this machine")
        return
    if survey is None:
        seen = f"{site.scheduler}: its plug-in brings nothing by which the doctor could look at it"
        yield Finding("site", "scheduler", "unknown", seen, "try it by `hpcdist doctor --job`")
        return
    if not (survey.kinds or survey.parts):
        why = "; ".join(dict.fromkeys(item.why for item in survey.unseen)) or "it named no nodes"
        do = "load its module, or ask the centre whether this host may submit jobs"
        yield Finding("site", "scheduler", "error", f"{survey.scheduler} does not answer: {why}", do)
        return
    yield Finding("site", "scheduler", "ok", survey.title)
    for item in survey.unseen:
        yield Finding("site", item.command, "unknown", item.why, by_hand(item.command))


def _candidates(site: Site) -> Iterator[Launcher]:
    """Yield launchers, one for each program: the site's own first, then others that would do here."""
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
            yield _there(site, launcher, path, answers)
        elif launcher.name == site.launcher:
            yield _lacking(site, launcher.program)


def _there(site: Site, launcher: Launcher, path: str, answers: Answers) -> Finding:
    program = launcher.program
    if not launcher.version_words:
        return Finding("launchers", program, "ok", path)
    done = said(answers, version(launcher))
    if not done.ok:
        seen = f"{path}; {failure(done)}"
        return Finding("launchers", program, "unknown", seen, by_hand(done.command))
    first = next(iter(done.stdout.strip().splitlines()), "it does not tell its version")
    return _judged(site, Finding("launchers", program, "ok", f"{path}: {first}"), done.stdout)


def _judged(site: Site, finding: Finding, text: str) -> Finding:
    """Return the finding; an error where the site's launcher is for another MPI than this program's."""
    own = launchers.get(site.launcher)
    fitting = own.mpi_flavours
    flavour = next((name for name, words in _FLAVOURS.items() if re.search(words, text)), "")
    if own.program != finding.name or not fitting or flavour in fitting:
        return finding
    if not flavour:
        seen = f"{finding.seen}; which MPI that is, is not known"
        do = f"launcher {site.launcher} is for {' and '.join(fitting)}: try it by `hpcdist doctor --job`"
        return finding._replace(status="unknown", seen=seen, do=do)
    other = next(item.name for item in launchers.objects() if flavour in item.mpi_flavours)
    do = f"launcher {site.launcher} is for {' and '.join(fitting)}: load such a module, or write"
    return finding._replace(status="error", do=f"{do} `launcher: {other}` in the site file")


def _lacking(site: Site, program: str) -> Finding:
    seen = f"there is no {program} on PATH, and it is the site's launcher"
    if site.modules or site.source or site.setup:
        return Finding("launchers", program, "note", f"{seen}; the job's setup may bring it", TELLS_MORE)
    do = "load its module here and name it in `modules` of the site file, or choose another launcher"
    return Finding("launchers", program, "error", seen, do)


def _mpi(site: Site, which: Which, answers: Answers) -> Iterator[Finding]:
    """Compare the site's word for ``srun --mpi`` with what this Slurm has."""
    wanted = site.options("srun").mpi
    if not which("srun") or (site.launcher != "srun" and wanted is None):
        return
    done = said(answers, MPI)
    text = done.stdout + done.stderr
    types = [*mpi_types(text), *re.findall(r"\b(pmix_\w+)", text)]
    if not done.ok or not types:
        why = failure(done) if not done.ok else f"{MPI} named no types"
        yield Finding("launchers", "srun --mpi", "unknown", why, by_hand(MPI))
    elif wanted in (None, *types):
        seen = f"{wanted or 'none asked'}, of {', '.join(sorted({*types}))}"
        yield Finding("launchers", "srun --mpi", "ok", seen)
    else:
        seen = f"the site says {wanted}, and Slurm has {', '.join(sorted({*types}))}"
        do = f"write one of those as `launchers: {{srun: {{mpi: {_nearest(types)}}}}}` in the site file"
        yield Finding("launchers", "srun --mpi", "error", seen, do)


def _nearest(types: Sequence[str]) -> str:
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
        seen = f"there is no {program} on PATH here; the nodes may have it"
        yield Finding("containers", name, "note", seen, "look for its module, or ask the centre")
    else:
        seen = "it is a part of the launcher, which does not tell"
        yield Finding("containers", name, "unknown", seen, "ask the centre, or try a job with an image")

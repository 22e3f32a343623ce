"""The login node: runs the commands of all groups of checks; the groups are pure and read the results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.doctor import batch, devices, limits, records, runs, software
from hpcdist.doctor.batch import ChosenSite
from hpcdist.doctor.finding import Finding, Which
from hpcdist.doctor.records import Host
from hpcdist.host.command import Command, Completed, Runner, python
from hpcdist.schedulers import common, schedulers
from hpcdist.schedulers.base import LibraryStatus, Scheduler
from hpcdist.schedulers.surveyors import Answers
from hpcdist.site.survey import Survey

PYTHONS: Final = ("python", "python3", sys.executable)
"""The first of these that runs is asked for its packages: jobs start ``python``."""


class HostProbe(NamedTuple):
    """How a host is examined; tests pass a fake one, also for a scheduler's library."""

    runner: Runner
    which: Which
    library: Callable[[Scheduler, Runner], LibraryStatus | None] = lambda scheduler, runner: (
        scheduler.library_status(runner)
    )


class TimeoutGuard:
    """A runner that does not start a program again after it has once timed out.

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
    return files("hpcdist.doctor").joinpath(f"{name}.py").read_text(encoding="utf-8")


def findings(chosen: ChosenSite, survey: Survey | None, folder: Path, probe: HostProbe) -> Iterator[Finding]:
    """Run the checks of this host, and yield their findings; ``survey``: None without a batch system."""
    site, which = chosen.site, probe.which
    scheduler = schedulers.get(site.scheduler)
    has_batch_system = scheduler.is_batch_system
    commands = (*batch.commands(site, which), *devices.commands(which), *runs.commands(folder))
    answers = Answers(tuple(map(probe.runner.run, commands)))
    library = probe.library(scheduler, probe.runner)
    yield from batch.findings(chosen, survey, library, which, answers)
    host, failures = _host(probe)
    yield from failures
    if host:
        gpus = has_batch_system and any(kind.gpus != 0 for kind in site.node_types.values())
        yield from software.findings(host, gpus=gpus)
        yield from limits.findings(host, site.fabric.network)
        yield from devices.network(host, site.fabric, "login" if has_batch_system else "node")
    yield devices.login_gpus(which, answers)
    yield from runs.findings(folder, answers, alone=not has_batch_system)


def _host(probe: HostProbe) -> tuple[Host | None, list[Finding]]:
    """Return what the first Python that runs reports, and a finding for each one that is missing or fails."""
    found: list[Finding] = []
    for name in PYTHONS:
        if probe.which(name) is None:
            found.append(_absent(name, probe.which))
            continue
        words = python(name, "exec(sys.stdin.read())")
        done = probe.runner.run(Command(words, stdin=program("host_info"), timeout=60))
        if task := records.read(done.stdout):
            return task.host, found
        found.append(Finding("python", name, "error", _why(done), "reinstall it, or load another one"))
    return None, found


def _absent(name: str, which: Which) -> Finding:
    detail = f"there is no {name} on PATH"
    hint = "load its module, or activate the environment with which jobs are to run"
    if name == "python" and which("python3"):
        return Finding("python", name, "note", detail, f"write python3 in `run.cmd`; or {hint}")
    return Finding("python", name, "warning", detail, hint)


def _why(done: Completed) -> str:
    """Return the last line of the traceback, or why there is none."""
    last = next(reversed(done.stderr.strip().splitlines()), None)
    words = common.why(done, last) if not done.ok else "its output cannot be read"
    return f"{done.command.argv[0]} cannot be run: {words}"

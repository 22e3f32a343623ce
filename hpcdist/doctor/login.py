"""The login node: the one place that looks. What commands say is judged by the groups, which are pure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.doctor import batch, devices, limits, records, runs, software
from hpcdist.doctor.batch import Chosen
from hpcdist.doctor.finding import Finding, Which
from hpcdist.doctor.records import Host
from hpcdist.host.command import Command, Completed, Runner
from hpcdist.schedulers import answers, schedulers
from hpcdist.schedulers.slurm.reader import Probe, probe
from hpcdist.schedulers.surveyors import Answers
from hpcdist.site.survey import Survey

PYTHONS: Final = ("python", "python3", sys.executable)
"""What is asked for its packages, the first that is there: jobs say ``python``."""


class HostProbe(NamedTuple):
    """The host that is looked at; tests hand in one of their own."""

    runner: Runner
    which: Which
    pyslurm: Callable[[Runner], Probe] = probe


class TimeoutGuard:
    """A runner in front of another that asks no program again which once did not end in time.

    A controller that is down costs its time once, not once a question.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._hung: set[str] = set()

    def run(self, command: Command) -> Completed:
        """Run the command, or tell at once that it did not end."""
        if command.argv[0] in self._hung:
            return Completed(command, 124, timed_out=True)
        done = self._runner.run(command)
        if done.timed_out:
            self._hung.add(command.argv[0])
        return done


def program(name: str) -> str:
    """Return the text of a program that runs without hpcdist."""
    return files("hpcdist.doctor").joinpath(f"{name}.py").read_text(encoding="utf-8")


def findings(chosen: Chosen, survey: Survey | None, folder: Path, scene: HostProbe) -> Iterator[Finding]:
    """Look around, and yield what was found; ``survey`` None: nobody can ask a batch system."""
    site, which = chosen.site, scene.which
    has_batch_system = schedulers.get(site.scheduler).is_batch_system
    commands = (*batch.ask(site, which), *devices.ask(which), *runs.ask(folder))
    heard = Answers(tuple(map(scene.runner.run, commands)))
    reader = scene.pyslurm(scene.runner) if site.scheduler == "slurm" else None
    yield from batch.findings(chosen, survey, reader, which, heard)
    host, unseen = _host(scene)
    yield from unseen
    if host:
        gpus = has_batch_system and any(kind.gpus != 0 for kind in site.node_types.values())
        yield from software.findings(host, gpus=gpus)
        yield from limits.findings(host, site.fabric.network)
        yield from devices.network(host, site.fabric, "login" if has_batch_system else "node")
    yield devices.login_gpus(which, heard)
    yield from runs.findings(folder, heard, alone=not has_batch_system)


def _host(scene: HostProbe) -> tuple[Host | None, list[Finding]]:
    """Ask the first Python that is there; what is odd about it is said, and the next one asked."""
    found: list[Finding] = []
    for name in PYTHONS:
        if scene.which(name) is None:
            found.append(_absent(name, scene.which))
            continue
        done = scene.runner.run(Command((name, "-"), stdin=program("look"), timeout=60))
        if task := records.read(done.stdout):
            return task.host, found
        found.append(Finding("python", name, "error", _why(done), "reinstall it, or load another one"))
    return None, found


def _absent(name: str, which: Which) -> Finding:
    seen = f"there is no {name} on PATH"
    do = "load its module, or activate the environment with which jobs are to run"
    if name == "python" and which("python3"):
        return Finding("python", name, "note", seen, f"say python3 in `run.cmd`; or {do}")
    return Finding("python", name, "warning", seen, do)


def _why(done: Completed) -> str:
    """Return the last line of a traceback, or what else went wrong."""
    said = next(reversed(done.stderr.strip().splitlines()), None)
    words = answers.why(done, said) if not done.ok else "its answer cannot be read"
    return f"{done.command.argv[0]} cannot be asked: {words}"

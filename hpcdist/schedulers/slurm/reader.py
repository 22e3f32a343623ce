"""Reading Slurm by its commands, or through pyslurm where one is installed and a command is missing.

It is a ``Runner`` around another: where squeue or scontrol is missing, as in images that have only
libslurm, another Python process runs ``pyslurm_answers``, which prints the same. Commands are faster where
they exist: 518 jobs took squeue 0.014 s and pyslurm 0.09 s. pyslurm X.Y requires Slurm X.Y: 22.5.3 is for
22.05.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final, NamedTuple

from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.schedulers import answers
from hpcdist.schedulers.slurm import pyslurm_answers
from hpcdist.schedulers.slurm.queries import command

VARIABLE: Final = "HPCDIST_SLURM_READER"
"""``auto`` (or nothing): pyslurm where a command is missing; ``commands``: never."""

_VERSION: Final = command("squeue", "--version", timeout=15)
_RELEASES: Final = "https://github.com/PySlurm/pyslurm/releases"


class Probe(NamedTuple):
    """Whether pyslurm can read Slurm here, why in a sentence, and what could be done about it."""

    works: bool
    why: str
    hint: str = ""


class Reader(NamedTuple):
    """The runner that asks pyslurm where a command is missing; ``limit`` is how long it may take, in seconds.

    A process is started for each answer, so a pyslurm that dies or hangs costs its time and nothing else.
    """

    runner: Runner
    python: str = sys.executable
    limit: float = 15.0

    def run(self, command: Command) -> Completed:
        """Run the command, or pyslurm, which prints the same; no failure of the process raises."""
        done = self.runner.run(command)
        if done.missing and command.argv in pyslurm_answers.ANSWERS:
            answer = self.ask(_release(self.runner.run(_VERSION)), command)
            if answer.ok:
                return answer._replace(command=command)
        return done

    def ask(self, release: str, command: Command) -> Completed:
        """Run the program that answers for this command; without words it prints pyslurm's version.

        ``release``: Slurm's; empty if squeue, which prints it, is missing.
        """
        program = (self.python, pyslurm_answers.__file__, release)
        return self.runner.run(command._replace(argv=(*program, *command.argv), timeout=self.limit))


def is_installed() -> bool:
    """Return whether hpcdist's Python has a pyslurm, without importing it."""
    return find_spec("pyslurm") is not None


def with_pyslurm(
    runner: Runner, environment: Mapping[str, str] = os.environ, installed: Callable[[], bool] = is_installed
) -> Runner:
    """Return what reads Slurm: the runner itself if pyslurm is not installed, or not wanted.

    Raises:
        ConfigError: for a ``$HPCDIST_SLURM_READER`` that is neither ``auto`` nor ``commands``.
    """
    return Reader(runner) if _is_wanted(environment) and installed() else runner


def probe(
    runner: Runner, environment: Mapping[str, str] = os.environ, installed: Callable[[], bool] = is_installed
) -> Probe:
    """Find out whether pyslurm can read Slurm here; another process imports it.

    Raises:
        ConfigError: for a ``$HPCDIST_SLURM_READER`` that is neither ``auto`` nor ``commands``.
    """
    if not _is_wanted(environment):
        return Probe(works=False, why=f"{VARIABLE}=commands: pyslurm is not asked")
    if not installed():
        return Probe(works=False, why="pyslurm is not installed with hpcdist")
    return check(Reader(runner))


def check(reader: Reader) -> Probe:
    """Return whether this pyslurm fits this Slurm."""
    version = reader.runner.run(_VERSION)
    release = _release(version)
    if not (release or version.missing):
        return Probe(works=False, why=f"squeue does not print the version of Slurm: {answers.why(version)}")
    answer = reader.ask(release, _VERSION._replace(argv=()))
    if answer.ok and version.missing:
        return Probe(works=True, why=f"pyslurm {answer.stdout.strip()} reads Slurm, since there is no squeue")
    if answer.ok:
        fits = f"pyslurm {answer.stdout.strip()} fits Slurm {version.stdout.split()[-1]}"
        return Probe(works=True, why=f"{fits}; the commands are there, and quicker")
    last = next(reversed(answer.stderr.strip().splitlines()), None)
    which = f"pyslurm {release}.*" if release else "the pyslurm of your Slurm"
    hint = f"install {which} ({_RELEASES}), or do without: Slurm's commands print the same"
    return Probe(works=False, why=f"pyslurm cannot be used: {answers.why(answer, last)}", hint=hint)


def _is_wanted(environment: Mapping[str, str]) -> bool:
    value = environment.get(VARIABLE) or "auto"
    if value not in ("auto", "commands"):
        message = f"{VARIABLE}={value} is no way to read Slurm"
        raise ConfigError(Problem(message, hint="set it to auto or commands, or not at all"))
    return value == "auto"


def _release(version: Completed) -> str:
    """Return the release in pyslurm's form, ``22.5`` of ``slurm-wlm 22.05.8``, empty where unknown."""
    found = re.search(r"\b(\d+)\.(\d+)\.\d", version.stdout) if version.ok else None
    return f"{int(found[1])}.{int(found[2])}" if found else ""

"""Surveyors: the commands that describe a machine, and how to read them; none starts a process.

Each asks only what any user may, and nothing that changes anything. One surveyor is ``survey.py`` in the
folder of its scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from hpcdist.host.command import Command, Completed
from hpcdist.registry import Registry
from hpcdist.schedulers import common
from hpcdist.site.survey import FailedCommand, Survey


class Answers(NamedTuple):
    """What was answered so far."""

    completed: tuple[Completed, ...] = ()

    def text(self, command: Command) -> str:
        """Return the output of a command, empty where it was not run or failed."""
        return next((done.stdout for done in self.completed if done.command == command and done.ok), "")

    def unasked(self, *commands: Command) -> Iterator[Command]:
        """Yield the commands that have not been run yet."""
        asked = [done.command for done in self.completed]
        return (command for command in commands if command not in asked)

    @property
    def failures(self) -> tuple[FailedCommand, ...]:
        """The commands that failed, each with the reason."""
        return tuple(FailedCommand(str(done.command), _why(done)) for done in self.completed if not done.ok)


class Surveyor(Protocol):
    """Describes a machine from the output of its batch system."""

    def ask(self, user: str, answers: Answers) -> Sequence[Command]:
        """Return the next commands to run, given the answers so far; empty when there are no more."""
        ...

    def read(self, user: str, answers: Answers) -> Survey:
        """Return the survey; what cannot be read is unknown, never guessed."""
        ...


def _why(completed: Completed) -> str:
    if completed.missing:
        return f"there is no {completed.command.argv[0]} here"
    return " ".join(common.why(completed).split())


surveyors: Registry[Surveyor] = Registry(
    "surveyor",
    {
        "slurm": "hpcdist.schedulers.slurm.survey:SURVEYOR",
        "pbs": "hpcdist.schedulers.pbs.survey:SURVEYOR",
        "lsf": "hpcdist.schedulers.lsf.survey:SURVEYOR",
        "flux": "hpcdist.schedulers.flux.survey:SURVEYOR",
        "sge": "hpcdist.schedulers.sge.survey:SURVEYOR",
    },
)

"""Surveyors: the commands that describe a machine, and how to read them; none starts a process.

Each runs only commands that any user may run and that change nothing. A surveyor is ``survey.py`` in
the folder of its scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from hpcdist.base.command import Command, Completed
from hpcdist.base.registry import Registry
from hpcdist.base.units import Memory, Walltime
from hpcdist.schedulers import answers
from hpcdist.site.survey import Fact, FailedCommand, Survey


class SurveyAnswers(NamedTuple):
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

    commands: ClassVar[tuple[Command, ...]] = ()

    def ask(self, user: str, answers: SurveyAnswers) -> Sequence[Command]:  # noqa: ARG002 - others need it
        """Return the next commands to run, given the answers so far; empty when there are no more."""
        return [*answers.unasked(*self.commands)]

    def read(self, user: str, answers: SurveyAnswers) -> Survey:
        """Return the survey; what cannot be read is unknown, never guessed."""
        ...


def _why(completed: Completed) -> str:
    if completed.missing:
        return f"there is no {completed.command.argv[0]} here"
    return " ".join(answers.why(completed).split())


# --- What surveyors have in common


def json_object(text: str) -> dict[str, Any]:
    """Return the object of an answer in JSON, an empty one for junk."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def walltime(text: str) -> Walltime | None:
    """Return a time limit, None for what is no time."""
    try:
        return Walltime.parse(text)
    except ValueError:
        return None


def memory(value: object) -> int | None:
    """Return an amount of memory in MiB, None for what is no amount."""
    try:
        return Memory.parse(value).mib
    except ValueError:
        return None


def walltime_fact(defaults: Mapping[str, object] = {}) -> Fact:
    """Return the time limit of jobs that set none; ``defaults``: the batch system's, by partition."""
    own = (f"a job that asks for none gets {limit} in {name}" for name, limit in defaults.items())
    return Fact("walltime", remarks=("what experiments get that say none", *own), example="01:00:00")


def partition_fact(
    default: str | None, names: Sequence[str], source: Command, remarks: tuple[str, ...] = ()
) -> Fact:
    """Return the partition of jobs that set none, unknown unless it is among these names."""
    known = default if default in names else None
    return Fact("default_partition", known, str(source), remarks, names[0] if names else "NAME")


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

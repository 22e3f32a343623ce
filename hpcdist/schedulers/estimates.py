"""When a batch system expects jobs to start: a script that is not submitted, or jobs that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.job import Job


class Estimate(NamedTuple):
    """When a job would start, in seconds since 1970; None is not known, for the reason in ``why``."""

    start: float | None = None
    why: str = ""


class Starts(Protocol):
    """Estimates for a script that is not submitted, and for jobs that wait."""

    def test(self, script: str) -> Command | None:
        """Return the command that asks when this text of a script would start; None where none can."""
        ...

    def read_test(self, completed: Completed) -> Estimate:
        """Return its answer; a refusal is not known, and ``why`` has the batch system's words."""
        ...

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield the commands that ask for all these jobs."""
        ...

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return times in seconds since 1970 by job id; jobs without an estimate are left out."""
        ...


@runtime_checkable
class HasStarts(Protocol):
    """What a scheduler may have besides: estimates of when jobs start."""

    def starts(self) -> Starts:
        """Return them."""
        ...

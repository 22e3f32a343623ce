"""Following a job: print its output as it is written, until the job ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import click

from hpcdist.cli.jobs.runs import explain
from hpcdist.cli.messages import note
from hpcdist.errors import SchedulerError
from hpcdist.runs import logs
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report, status
from hpcdist.runs.watching import Watch

_SHORTEST: Final = 1.0
"""Seconds between two looks at a remote."""

Filter = Callable[[Iterable[str]], Iterable[str]]


class Source(Protocol):
    """What is followed: yields lines as they are written, until the job is over."""

    def __call__(
        self, directory: RunDirectory, is_over: Callable[[], bool], sleep: Callable[[float], None]
    ) -> Iterator[str]:
        """Yield all lines, and new ones as they come."""
        ...


def follow(
    run: Run, services: Services, only: Filter = iter, source: Source = logs.follow, verb: str = "logs"
) -> Report:
    """Print the job's output, or another source of lines, until the job ends; return the report of its end.

    Following stops, too, after a long time without output and without an answer of the batch system.
    """
    watch = Watch(run, services, explain)
    try:
        for line in only(watch.observe(source(run.directory, watch.is_over, _pulling(run, services)))):
            click.echo(line)
            sys.stdout.flush()
    except KeyboardInterrupt:
        note(f"the job keeps running; `hpcdist {verb} {run.name} -f` follows it again")
        raise
    return watch.report or status([run], services)[0]


def _pulling(run: Run, services: Services) -> Callable[[float], None]:
    """Return how to pause: a run of a remote is brought up to date then, whenever its remote answers."""
    if not run.record.remote:
        return services.sleep
    lost = False

    def sleep(seconds: float) -> None:
        nonlocal lost
        services.sleep(max(seconds, _SHORTEST))
        try:
            services.pull([run])
            lost = False
        except SchedulerError as error:
            if not lost:
                note(f"{error}; trying again")
            lost = True

    return sleep

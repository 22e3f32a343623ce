"""Following a job: print its output as it is written, until the job ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import click

from hpcdist.cli.jobs.runs import explain
from hpcdist.cli.messages import note
from hpcdist.runs import logs
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.logs import Watch
from hpcdist.runs.remotes import here
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services

Filter = Callable[[Iterable[str]], Iterable[str]]


class LogSource(Protocol):
    """What is followed: yields lines as they are written, until the job is over."""

    def __call__(
        self, directory: RunDirectory, is_over: Callable[[], bool], sleep: Callable[[float], None]
    ) -> Iterator[str]:
        """Yield all lines, and new ones as they come."""
        ...


def follow(
    run: Run, services: Services, only: Filter = iter, source: LogSource = logs.follow, verb: str = "logs"
) -> Report:
    """Print the job's output, or another source of lines, until the job ends; return the report of its end.

    Following stops, too, after a long time without output and without an answer of the batch system.
    """
    try:
        with here.with_tunnels([run], services, note) as pausing:
            watch = Watch(run, pausing, explain, note)
            for line in only(watch.observe(source(run.directory, watch.is_over, watch.sleep))):
                click.echo(line)
                sys.stdout.flush()
    except KeyboardInterrupt:
        note(f"the job keeps running; `hpcdist {verb} {run.name} -f` follows it again")
        raise
    return watch.report or status([run], services)[0]

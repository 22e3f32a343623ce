"""Following a job: its output as it comes, until it is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from hpcdist import logs
from hpcdist.cli.runs import sentence
from hpcdist.cli.tell import note
from hpcdist.job import JobState
from hpcdist.rundir import Run
from hpcdist.states import Report, status
from hpcdist.world import World

Filter = Callable[[Iterable[str]], Iterable[str]]


def follow(run: Run, world: World, only: Filter = iter) -> Report:
    """Print what the job writes until it is over; return how it ended."""
    watch = Watch(run, world)
    try:
        for line in only(logs.follow(run.directory, watch.is_over, world.sleep)):
            click.echo(line)
            sys.stdout.flush()
    except KeyboardInterrupt:
        note(f"the job goes on; `hpcdist logs {run.name} -f` follows it again")
        raise
    return watch.report or status([run], world)[0]


class Watch:
    """Asks the batch system after growing pauses, and at once when the job says that it ended."""

    def __init__(self, run: Run, world: World) -> None:
        self.run = run
        self.world = world
        self.report: Report | None = None
        self._ends = 0
        self._next = 0.0
        local = run.record.scheduler == "local"
        self._pause, self._longest = (0.1, 1.0) if local else (1.0, 30.0)

    def is_over(self) -> bool:
        """Return whether the job is over, as far as is known now."""
        now = self.world.now()
        ends = sum(event.what == "ended" for event in self.run.directory.events())
        if now < self._next and ends == self._ends:
            return False
        self._ends, self._next = ends, now + self._pause
        self._pause = min(self._pause * 1.5, self._longest)
        was = self.report and self.report.status.state
        [self.report] = status([self.run], self.world)
        if self.report.status.state is JobState.PENDING is not was:
            note(sentence(self.report))
        return self.report.is_over

"""Following a job: its output as it comes, until it is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from hpcdist.cli.jobs.runs import sentence
from hpcdist.cli.tell import note
from hpcdist.runs import logs
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import World
from hpcdist.runs.states import Report, status
from hpcdist.runs.waiting import EAGER, gist, is_local, pause_after
from hpcdist.schedulers.job import JobState

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
        self._began = world.now()
        self._next = 0.0

    def is_over(self) -> bool:
        """Return whether the job is over, as far as is known now."""
        now = self.world.now()
        ends = sum(event.what == "ended" for event in self.run.directory.events())
        if now < self._next and ends == self._ends:
            return False
        pause = pause_after(now - self._began, local=is_local([self.run]))
        self._ends, self._next = ends, now + (min(pause, EAGER) if ends else pause)
        was = self.report and gist(self.report)
        [self.report] = status([self.run], self.world)
        if self.report.status.state is JobState.PENDING and gist(self.report) != was:
            note(sentence(self.report))
        return self.report.is_over

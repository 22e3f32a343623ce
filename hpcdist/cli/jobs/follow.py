"""Following a job: print its output as it is written, until the job ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import click

from hpcdist.cli.jobs.runs import explain
from hpcdist.cli.messages import note
from hpcdist.runs import logs
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report, status
from hpcdist.runs.waiting import (
    ENDING_PAUSE,
    SilenceTimeout,
    is_ending,
    is_local,
    pause_after,
    state_and_reason,
)

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
    watch = Watch(run, services)
    try:
        for line in only(watch.observe(source(run.directory, watch.is_over, services.sleep))):
            click.echo(line)
            sys.stdout.flush()
    except KeyboardInterrupt:
        note(f"the job keeps running; `hpcdist {verb} {run.name} -f` follows it again")
        raise
    return watch.report or status([run], services)[0]


class Watch:
    """Polls the batch system at growing intervals, and at once when the event log has the job's end."""

    def __init__(self, run: Run, services: Services) -> None:
        self.run = run
        self.services = services
        self.report: Report | None = None
        self._ends = 0
        self._began = services.now()
        self._next = 0.0
        self._silence = SilenceTimeout()

    def observe(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield these lines of output; each restarts the silence timeout, since the job is alive."""
        for line in lines:
            self._silence = SilenceTimeout(self.services.now() - self._began)
            yield line

    def is_over(self) -> bool:
        """Return whether the job is known to have ended, or the silence timeout has expired."""
        now = self.services.now()
        ends = sum(event.what == "ended" for event in self.run.directory.events())
        if now < self._next and (ends == self._ends or not is_ending(self.run)):
            return False
        pause = pause_after(now - self._began, local=is_local([self.run]))
        self._ends, self._next = ends, now + (min(pause, ENDING_PAUSE) if is_ending(self.run) else pause)
        was = self.report and state_and_reason(self.report)
        [self.report] = status([self.run], self.services)
        if state_and_reason(self.report) != was:
            explain(self.report)
        return self.report.is_over or self._silence.has_expired([self.report], now - self._began)

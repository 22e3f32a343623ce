"""Following a job: its output as it comes, until it is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

import click

from hpcdist.cli.jobs.runs import explain
from hpcdist.cli.tell import note
from hpcdist.runs import logs
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report, status
from hpcdist.runs.waiting import EAGER, SilenceTimeout, is_ending, is_local, pause_after, state_and_reason

Filter = Callable[[Iterable[str]], Iterable[str]]


def follow(run: Run, services: Services, only: Filter = iter) -> Report:
    """Print what the job writes until it is over; return how it ended.

    Where nothing was heard for a long time, neither of the batch system nor of the job, that is the report.
    """
    watch = Watch(run, services)
    try:
        for line in only(watch.noting(logs.follow(run.directory, watch.is_over, services.sleep))):
            click.echo(line)
            sys.stdout.flush()
    except KeyboardInterrupt:
        note(f"the job goes on; `hpcdist logs {run.name} -f` follows it again")
        raise
    return watch.report or status([run], services)[0]


class Watch:
    """Asks the batch system after growing pauses, and at once when the job says that it ended."""

    def __init__(self, run: Run, services: Services) -> None:
        self.run = run
        self.services = services
        self.report: Report | None = None
        self._ends = 0
        self._began = services.now()
        self._next = 0.0
        self._silence = SilenceTimeout()

    def noting(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield these lines of the job: each shows that it lives, whatever the batch system says."""
        for line in lines:
            self._silence = SilenceTimeout(self.services.now() - self._began)
            yield line

    def is_over(self) -> bool:
        """Return whether the job is over, as far as is known now, or nothing was heard for too long."""
        now = self.services.now()
        ends = sum(event.what == "ended" for event in self.run.directory.events())
        if now < self._next and (ends == self._ends or not is_ending(self.run)):
            return False
        pause = pause_after(now - self._began, local=is_local([self.run]))
        self._ends, self._next = ends, now + (min(pause, EAGER) if is_ending(self.run) else pause)
        was = self.report and state_and_reason(self.report)
        [self.report] = status([self.run], self.services)
        if state_and_reason(self.report) != was:
            explain(self.report)
        return self.report.is_over or self._silence.is_too_long([self.report], now - self._began)

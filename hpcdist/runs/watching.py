"""Whether the job whose output is followed has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hpcdist.runs.rundir import Run
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


class Watch:
    """Polls the batch system at growing intervals, and at once when the event log has the job's end.

    ``on_change`` gets each report whose state or reason has changed.
    """

    def __init__(
        self, run: Run, services: Services, on_change: Callable[[Report], object] = lambda _: None
    ) -> None:
        self.run = run
        self.services = services
        self._on_change = on_change
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
            self._on_change(self.report)
        return self.report.is_over or self._silence.has_expired([self.report], now - self._began)

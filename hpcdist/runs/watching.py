"""Whether the job whose output is followed has ended, and all that it wrote is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hpcdist.errors import ConfigError, SchedulerError
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Outdated, Services
from hpcdist.runs.states import Report, status
from hpcdist.runs.waiting import (
    ENDING_PAUSE,
    SilenceTimeout,
    is_ending,
    is_local,
    pause_after,
    state_and_reason,
)

_SHORTEST = 1.0
"""Seconds between two looks at a remote."""


class Watch:
    """Polls the batch system at growing intervals, and at once when the event log has the job's end.

    ``on_change`` gets each report whose state or reason has changed, ``note`` why a remote does not answer.
    """

    def __init__(
        self,
        run: Run,
        services: Services,
        on_change: Callable[[Report], object] = bool,
        note: Callable[[str], object] = bool,
    ) -> None:
        self.run = run
        self.services = services
        self._on_change = on_change
        self._note = note
        self.report: Report | None = None
        self._ends = 0
        self._began = services.now()
        self._next = 0.0
        self._slept = 0.0  # what does not grow while a laptop sleeps
        self._silence = SilenceTimeout()
        self._lost = False

    def observe(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield these lines of output; each restarts the silence timeout, since the job is alive."""
        for line in lines:
            self._silence = SilenceTimeout(self._slept)
            yield line

    def sleep(self, seconds: float) -> None:
        """Pause between two reads; what a run of a remote has written comes here then, if that answers."""
        pause = max(seconds, _SHORTEST) if self.run.record.remote else seconds
        self.services.sleep(pause)
        self._slept += pause
        if self.run.record.remote:
            self._has_pulled(whole=False)

    def is_over(self) -> bool:
        """Return whether the job has ended and all its output is here, or the silence timeout has expired."""
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
        if self.report.is_over:
            return self._has_pulled(whole=True)
        return self._silence.has_expired([self.report], self._slept)

    def _has_pulled(self, *, whole: bool) -> bool:
        """Bring what is on a remote here; return whether that is done, also where nothing more can come."""
        try:
            self.services.pull([self.run], whole=whole)
        except (ConfigError, Outdated) as error:
            if whole:
                self._note(str(error))
            return True
        except SchedulerError as error:
            if not self._lost:
                self._note(f"{error}; trying again")
            self._lost = True
            return False
        self._lost = False
        return True

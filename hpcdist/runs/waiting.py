"""Waiting for jobs: all are asked for together, with growing pauses; what a job writes cuts them short."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hpcdist.runs import endings
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report, status
from hpcdist.schedulers import Waits, schedulers
from hpcdist.schedulers.job import JobState

_PATIENCE: Final = 900.0
"""After so many seconds without any state, waiting and following are given up."""

_SHARE: Final = 0.1
"""A pause is so much of the time waited, so that a job's end is known with that delay at most."""

_SHORTEST: Final = 1.0
_LONGEST: Final = 60.0
EAGER: Final = 10.0
"""The longest pause once a job has written that it ends."""

_SOON: Final = 0.25
"""The first pause once a job has written something; each further one is half as long again."""

_LOOK: Final = 2.0
"""How often the event logs are looked at, in seconds, a stat(2) for each run; at first after `_SOON`."""


def wait(
    runs: Sequence[Run], services: Services, *, on_change: Callable[[Report], None] | None = None
) -> list[Report]:
    """Return when all these jobs are over, or when nothing was heard of the rest for a long time.

    A pause is a tenth of the time waited, 1 to 60 s, on this machine 0.1 to 1 s; it ends when the event log
    of a run has grown. ``on_change`` is given each report whose state, or reason, is another.
    """
    reports: dict[Path, Report] = {}
    pauses = PollTimer(services, local=is_local(runs))
    left, silence = list(runs), SilenceTimeout()
    while left:
        now = status(left, services)
        for report in now:
            old = reports.get(report.run.directory.path)
            reports[report.run.directory.path] = report
            if on_change and (old is None or state_and_reason(old) != state_and_reason(report)):
                on_change(report)
        left = [report.run for report in now if not report.is_over]
        if not left or silence.is_too_long(now, pauses.slept):
            break
        pauses.pause(left)
    return [reports[run.directory.path] for run in runs]


def is_local(runs: Sequence[Run]) -> bool:
    """Return whether all these run on this machine, where asking costs little."""
    return not any(schedulers.get(run.record.scheduler).is_batch_system for run in runs)


def state_and_reason(report: Report) -> tuple[JobState, str]:
    """Return what is told once; a reason in which only a number changed is the same."""
    return report.status.state, re.sub("[0-9]+", "", report.status.reason)


def pause_after(waited: float, *, local: bool) -> float:
    """Return how long to pause after having waited so long."""
    scale = 0.1 if local else 1.0
    return min(max(_SHORTEST * scale, waited * _SHARE), 1.0 if local else _LONGEST)


class SilenceTimeout:
    """How long nothing has been known of any of the jobs that are waited for."""

    def __init__(self, since: float = 0.0) -> None:
        self._since = since

    def is_too_long(self, reports: Sequence[Report], at: float) -> bool:
        """Return whether that is so for longer than a batch system may be silent, at so many seconds."""
        if any(report.status.state is not JobState.UNKNOWN for report in reports):
            self._since = at
        return at - self._since > _PATIENCE


class PollTimer:
    """The pauses between questions; ``slept`` is how long they were in all.

    A log that grew ends a pause: at once for the first times, then after ``EAGER`` seconds at least, since an
    array writes often. While a job has written its end, and the batch system does not know it yet, pauses are
    short.
    """

    def __init__(self, services: Services, *, local: bool) -> None:
        self.slept = 0.0
        self._services = services
        self._local = local
        self._eager = min(_SOON, pause_after(0, local=local))
        self._sizes: dict[Path, int] = {}
        self._ending: set[Path] = set()
        self._refused = False

    def pause(self, runs: Sequence[Run]) -> None:
        """Sleep, until it is time to ask for these runs again."""
        length = pause_after(self.slept, local=self._local)
        if self._is_ending(runs):
            length = min(length, self._eager)
        grown = self._look(runs)
        if length <= _LOOK or self._wait_by_scheduler(runs, length) < _LOOK:  # else without a pause, for ever
            is_cut = self._sleep(runs, min(length, self._eager) if self._is_ending(runs) else length)
            grown = grown or is_cut
        if grown or self._is_ending(runs):
            self._eager = min(self._eager * 1.5, EAGER)

    def _is_ending(self, runs: Sequence[Run]) -> bool:
        return any(run.directory.path in self._ending for run in runs)

    def _sleep(self, runs: Sequence[Run], length: float) -> bool:
        """Sleep so long, or until an event log has grown; return whether one has."""
        slept, grown = 0.0, False
        step = max(min(_LOOK, _SOON + self.slept * _SHARE), len(runs) / 10)
        while slept < length and not (grown and slept >= self._eager):
            self._services.sleep(min(step, length - slept))
            slept += min(step, length - slept)
            grown = self._look(runs) or grown
        self.slept += slept
        return grown

    def _look(self, runs: Sequence[Run]) -> bool:
        """Return whether an event log has grown since the last look, and note whether a job ends."""
        grown = [run for run in runs if self._sizes.get(run.directory.path, 0) != _size(run)]
        self._sizes |= {run.directory.path: _size(run) for run in grown}
        self._ending -= {run.directory.path for run in grown}
        self._ending |= {run.directory.path for run in grown if is_ending(run)}
        return bool(grown)

    def _wait_by_scheduler(self, runs: Sequence[Run], length: float) -> float:
        """Wait by the scheduler's own command, where there is one, and one job; return how many seconds."""
        scheduler = schedulers.get(runs[0].record.scheduler)
        if len(runs) > 1 or self._refused or runs[0].job is None or not isinstance(scheduler, Waits):
            return 0.0
        began = self._services.now()
        completed = self._services.runner.run(scheduler.wait(runs[0].job)._replace(timeout=length))
        self._refused = not completed.ok and not completed.timed_out
        self._ending |= {runs[0].directory.path} if completed.ok else set()
        waited = max(0.0, self._services.now() - began)
        self.slept += waited
        return waited


def is_ending(run: Run) -> bool:
    """Return whether the job has written that it ends, an array that each of its elements does."""
    return run.job is not None and endings.has_written_its_end(run.job)


def _size(run: Run) -> int:
    """Return how long its event log is."""
    with contextlib.suppress(OSError):
        return (run.directory.path / "events").stat().st_size
    return 0

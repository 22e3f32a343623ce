"""Waiting for jobs: all are queried together at growing intervals, which new events cut short."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hpcdist.base.errors import WaitTimeout
from hpcdist.runs import endings
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Deadline, Services, renewed
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState

_SILENCE_LIMIT: Final = 900.0
"""Seconds without any known state after which waiting and following stop."""

_SHARE: Final = 0.1
"""The length of a pause as a fraction of the time waited, and so the largest relative delay."""

FIRST_ANSWER: Final = 10.0
"""Seconds that the first query may take, even if the time limit is shorter."""

_SHORTEST: Final = 1.0
_LONGEST: Final = 60.0
ENDING_PAUSE: Final = 10.0
"""The longest pause once the event log has a job's end."""

_SOON: Final = 0.25
"""The first pause after a new event; each further one is longer by half."""

_LOG_INTERVAL: Final = 2.0
"""Seconds between checks of the event logs, each a stat(2) per run; the first check is after `_SOON`."""


Further = Callable[[Report], Run | None]
"""Adds jobs to a run that is over; returns the run, or None if there are none."""


def wait(
    runs: Sequence[Run],
    services: Services,
    *,
    on_change: Callable[[Report], None] | None = None,
    further: Further = lambda _: None,
) -> list[Report]:
    """Return when all these jobs have ended, or the state of the others was unknown for a long time.

    A pause is a tenth of the time waited, 1 to 60 s, without a batch system 0.1 to 1 s; it ends early when
    the event log of a run has grown. ``on_change`` gets each report whose state or reason has changed.
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
        left = [run for report in now if (run := _unfinished(report) or further(report))]
        if not left or silence.has_expired(now, pauses.slept):
            break
        pauses.pause(left)
    return [reports[run.directory.path] for run in runs]


def _unfinished(report: Report) -> Run | None:
    """Return a run whose jobs have not all ended, with jobs added meanwhile; None if they have."""
    if not report.is_over:
        return report.run
    now = renewed(report.run)
    return now if len(now.jobs) > len(report.run.jobs) else None


def is_local(runs: Sequence[Run]) -> bool:
    """Return whether all these run on this machine, where a query costs little."""
    return not any(schedulers.get(run.record.scheduler).is_batch_system for run in runs)


def state_and_reason(report: Report) -> tuple[JobState, str]:
    """Return what must change for a new report; numbers in the reason do not count."""
    return report.status.state, re.sub("[0-9]+", "", report.status.reason)


def pause_after(waited: float, *, local: bool) -> float:
    """Return the seconds to pause after having waited so long."""
    scale = 0.1 if local else 1.0
    return min(max(_SHORTEST * scale, waited * _SHARE), 1.0 if local else _LONGEST)


class SilenceTimeout:
    """Measures how long the states of all jobs have been unknown."""

    def __init__(self, since: float = 0.0) -> None:
        self._since = since

    def has_expired(self, reports: Sequence[Report], at: float) -> bool:
        """Return whether, at this time in seconds, the states have been unknown for too long."""
        if any(report.status.state is not JobState.UNKNOWN for report in reports):
            self._since = at
        return at - self._since > _SILENCE_LIMIT


class PollTimer:
    """The pauses between queries; ``slept`` is their total length.

    A log that has grown ends a pause: at first soon, later after at least ``ENDING_PAUSE`` seconds, since an
    array writes often. While the event log has a job's end that the batch system does not report yet, pauses
    are short.
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
        """Sleep until these runs should be queried again."""
        length = pause_after(self.slept, local=self._local)
        if self._is_ending(runs):
            length = min(length, self._eager)
        grown = self._check_logs(runs)
        if (
            length <= _LOG_INTERVAL or self._wait_by_scheduler(runs, length) < _LOG_INTERVAL
        ):  # otherwise it would loop without a pause
            is_cut = self._sleep(runs, min(length, self._eager) if self._is_ending(runs) else length)
            grown = grown or is_cut
        if grown or self._is_ending(runs):
            self._eager = min(self._eager * 1.5, ENDING_PAUSE)

    def _is_ending(self, runs: Sequence[Run]) -> bool:
        return any(run.directory.path in self._ending for run in runs)

    def _sleep(self, runs: Sequence[Run], length: float) -> bool:
        """Sleep so long, or until an event log has grown; return whether one has grown."""
        slept, grown = 0.0, False
        step = max(min(_LOG_INTERVAL, _SOON + self.slept * _SHARE), len(runs) / 10)
        while slept < length and not (grown and slept >= self._eager):
            self._services.sleep(min(step, length - slept))
            slept += min(step, length - slept)
            grown = self._check_logs(runs) or grown
        self.slept += slept
        return grown

    def _check_logs(self, runs: Sequence[Run]) -> bool:
        """Return whether an event log has grown since the last check, and record which jobs are ending."""
        grown = [run for run in runs if self._sizes.get(run.directory.path, 0) != _size(run)]
        self._sizes |= {run.directory.path: _size(run) for run in grown}
        self._ending -= {run.directory.path for run in grown}
        self._ending |= {run.directory.path for run in grown if is_ending(run)}
        return bool(grown)

    def _wait_by_scheduler(self, runs: Sequence[Run], length: float) -> float:
        """Wait for a single job by the scheduler's own command, if any; return the seconds waited."""
        if self._refused or len(runs) > 1 or runs[0].later or runs[0].job is None:
            return 0.0
        if (command := schedulers.get(runs[0].record.scheduler).wait(runs[0].job)) is None:
            return 0.0
        began = self._services.now()
        runner = self._services.at(runs).runner
        completed = runner.run(command._replace(timeout=length))
        self._refused = not completed.ok and not completed.timed_out
        self._ending |= {runs[0].directory.path} if completed.ok else set()
        waited = max(0.0, self._services.now() - began)
        self.slept += waited
        return waited


def is_ending(run: Run) -> bool:
    """Return whether the event log has the end of the job, or of each element of an array."""
    return all(job.job is not None and endings.has_ended(job.job) for job in run.jobs)


def _size(run: Run) -> int:
    """Return the size of its event log."""
    with contextlib.suppress(OSError):
        return (run.directory.path / "events").stat().st_size
    return 0


def with_time_limit(services: Services, seconds: float) -> Services:
    """Return services whose sleeps and commands end after so many seconds in all.

    A later sleep raises `WaitTimeout`. Commands have at least ``FIRST_ANSWER`` seconds, for one query.
    """
    end = services.now() + seconds
    runner = Deadline(services.runner, services.now, max(end, services.now() + FIRST_ANSWER))
    return services._replace(runner=runner, sleep=_sleep_until(end, seconds, services))


def _sleep_until(end: float, seconds: float, services: Services) -> Callable[[float], None]:
    def sleep(pause: float) -> None:
        left = end - services.now()
        if left <= 0:
            raise WaitTimeout(f"the jobs have not ended within {seconds:g} s")
        services.sleep(min(pause, left))

    return sleep

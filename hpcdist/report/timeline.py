"""The attempts of a run as bars over the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.report import limits
from hpcdist.report.limits import Share
from hpcdist.runs.state import Attempt
from hpcdist.schedulers.job import JobState

_MOST: Final = 60


class Bar(NamedTuple):
    """An attempt; when it ``waited`` and ``ran``, as begin and length in hundredths of the whole time."""

    attempt: Attempt
    waited: tuple[float, float]
    ran: tuple[float, float]


class Timeline(NamedTuple):
    """The attempts of a run from ``begin`` to ``end``, both in seconds since 1970."""

    begin: float
    end: float
    bars: Share[Bar]


def timeline(found: Sequence[Attempt], now: float) -> Timeline | None:
    """Return the attempts as bars; None if none has a time. Those that run last until now."""
    times = [time for one in found for time in (one.queued, one.started, _end(one, now)) if time is not None]
    if not times:
        return None
    begin, end = min(times), max(times)
    return Timeline(begin, end, limits.at_most(_bars(found, begin, end, now), _MOST))


def _end(attempt: Attempt, now: float) -> float | None:
    is_live = attempt.ended is None and attempt.state in (JobState.RUNNING.value, JobState.PENDING.value)
    return now if is_live else attempt.ended


def _bars(found: Sequence[Attempt], begin: float, end: float, now: float) -> Iterator[Bar]:
    scale = 100 / max(end - begin, 1.0)

    def bar(first: float | None, last: float | None) -> tuple[float, float]:
        if first is None or last is None:
            return 0.0, 0.0
        return (first - begin) * scale, max(0.0, last - first) * scale

    for one in found:
        last = _end(one, now)
        waited = bar(one.queued, last if one.started is None else one.started)
        yield Bar(one, waited, bar(one.started, one.started if last is None else last))

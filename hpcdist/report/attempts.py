"""The attempts of a run: when its jobs were started and ended, by its event log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from hpcdist.report import limits
from hpcdist.report.limits import Share
from hpcdist.runs.events import Event
from hpcdist.runs.record import Record

_MOST: Final = 60


class Attempt(NamedTuple):
    """A start of a job or element; ``ended`` is None where the log has no end of it."""

    job: str
    restarts: int
    began: int
    ended: int | None = None
    code: str = ""


class Bar(NamedTuple):
    """An attempt as a bar, in hundredths of the whole time; ``waited`` is the time in the queue before it."""

    attempt: Attempt
    waited: tuple[float, float]
    ran: tuple[float, float]


class Timeline(NamedTuple):
    """The attempts of a run from ``begin`` to ``end``, both in seconds since 1970."""

    begin: float
    end: float
    bars: Share[Bar]


def attempts(events: Iterable[Event]) -> list[Attempt]:
    """Return the attempts in the order of their starts."""
    found: list[Attempt] = []
    running: dict[str, int] = {}
    for event in events:
        if event.what == "started":
            running[event.job_id] = len(found)
            found.append(Attempt(event.job_id, int(event.value) if event.value.isdecimal() else 0, event.at))
        elif event.what == "ended" and event.job_id in running:
            place = running.pop(event.job_id)
            found[place] = found[place]._replace(ended=event.at, code=event.value)
    return found


def timeline(record: Record, events: Sequence[Event], now: float, *, is_over: bool) -> Timeline | None:
    """Return the attempts as bars; None without any. One without an end lasts until now unless it is over."""
    found = attempts(events)
    if not found:
        return None
    submitted = datetime.fromisoformat(record.submitted_at or record.created_at).timestamp()
    begin = min(submitted, found[0].began)
    ends = [one.ended if one.ended is not None else one.began if is_over else now for one in found]
    end = max(ends)
    scale = 100 / max(end - begin, 1.0)
    bars = _bars(found, ends, begin, scale)
    return Timeline(begin, end, limits.at_most(bars, _MOST))


def _bars(found: Sequence[Attempt], ends: Sequence[float], begin: float, scale: float) -> Iterator[Bar]:
    free: dict[str, float] = {}
    for one, end in zip(found, ends, strict=True):
        before = free.get(one.job, begin)
        waited = ((before - begin) * scale, max(0.0, (one.began - before) * scale))
        yield Bar(one, waited, ((one.began - begin) * scale, max(0.0, (end - one.began) * scale)))
        free[one.job] = max(before, end)

"""The event log of a run: what its jobs wrote about themselves, a line each."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hpcdist.runs.record import JOB_ID

MAX_BYTES: Final = 1 << 26
_LATEST: Final = 253402300799
"""The last second of the year 9999, with which calendars end."""

_EVENT: Final = re.compile(rf"([a-z]+) ({JOB_ID}) ([0-9]{{1,12}}) (?![0-9]{{11}})([!-~]{{1,255}})")


class Event(NamedTuple):
    """One line that a job left in its run directory; ``at`` is in seconds since 1970."""

    what: str
    job_id: str
    at: int
    value: str


def read(text: bytes) -> tuple[Event, ...]:
    """Return what is written there; lines that are torn or strange are left out."""
    rows = filter(None, map(_EVENT.fullmatch, text.decode("utf-8", "replace").split("\n")[:-1]))
    events = (Event(row[1], row[2], int(row[3]), row[4]) for row in rows)
    return tuple(event for event in events if event.at <= _LATEST)

"""The event log of a run: one line for each start, end and other event of its jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from hpcdist.runs.record import JOB_ID
from hpcdist.schedulers.job import LATEST

MAX_BYTES: Final = 1 << 26

_EVENT: Final = re.compile(rf"(?m)^([a-z]+) ({JOB_ID}) ([0-9]{{1,12}}) (?![0-9]{{11}})([!-~]{{1,255}})\n")
_PACKING: Final = re.compile(r"\+([0-9]{1,9})$")


class Event(NamedTuple):
    """One line of the event log; ``at`` is in seconds since 1970."""

    what: str
    job_id: str
    at: int
    value: str


def read(text: bytes) -> tuple[Event, ...]:
    """Return the events of a log; incomplete or invalid lines are skipped."""
    rows = _EVENT.findall(text.decode("utf-8", "replace"))
    return tuple(
        [
            Event(what, plain_id(job) if "+" in job else job, seconds, value)
            for what, job, at, value in rows
            if (seconds := int(at)) <= LATEST
        ]
    )


def plain_id(job: str) -> str:
    """Return the id of a job; ``124_2`` for ``124+2``, element 2 of an array that runs packed trials."""
    return _PACKING.sub(r"_\1", job)


def last_started(events: Iterable[Event], element: str = "") -> str:
    """Return the id of the last job, or element of an array, that wrote its start; empty if none did."""
    started = [event.job_id for event in events if event.what == "started"]
    mine = [job for job in started if not element or job.endswith(f"_{element}")]
    return mine[-1] if mine else ""

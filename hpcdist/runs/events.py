"""The event log of a run: one line for each start, end and other event of its jobs. Python 3.6 or newer.

What the events of a start mean is in `hpcdist.runs.event_states`.
"""

import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

MAX_BYTES = 1 << 26
JOB_ID = "[A-Za-z0-9\u0192][A-Za-z0-9\u0192_.;:@+\\[\\]-]{0,254}"
"""A valid job id, which is safe as an argument of commands and on a terminal. (\u0192: Flux.)"""

FIRST_TO_FAIL = "%s was the first to fail, with exit code %s"
"""What the job prints of its first failure."""

_EVENT = re.compile(r"(?m)^([a-z]+) (%s) ([0-9]{1,11}) (?![0-9]{11})([!-~]{1,255})\n" % JOB_ID)
_PACKING = re.compile(r"\+([0-9]{1,9})$")
_MOST_DIGITS = 9


class Event(NamedTuple):
    """One line of the event log; ``at`` is in seconds since 1970."""

    what: str
    job_id: str
    at: int
    value: str

    @property
    def number(self) -> Optional[int]:
        """The value of an event that has a number, such as an exit code; else None."""
        return int(self.value) if len(self.value) <= _MOST_DIGITS and self.value.isdecimal() else None


class StartLog(NamedTuple):
    """What one start of a job, of an array's element or of a packed trial wrote; ``started`` is the first.

    The line of the first start may be lost, or not be written yet.
    """

    events: Tuple[Event, ...]

    @property
    def is_known(self) -> bool:
        """Whether it wrote that it began."""
        return self.events[:1] != () and self.events[0].what == "started"

    def all(self, *kinds: str) -> List[Event]:
        """Return its events of these kinds."""
        return [event for event in self.events if event.what in kinds]

    def first(self, *kinds: str) -> Optional[Event]:
        """Return the first event of these kinds; None without one."""
        return next((event for event in self.events if event.what in kinds), None)

    def last(self, *kinds: str) -> Optional[Event]:
        """Return the last event of these kinds; None without one."""
        return next((event for event in reversed(self.events) if event.what in kinds), None)


def starts(log: Iterable[Event]) -> List[StartLog]:
    """Split the events of one job, element or trial into its starts."""
    parts = []  # type: List[List[Event]]
    for event in log:
        if event.what == "started" or not parts:
            parts.append([])
        parts[-1].append(event)
    return [StartLog(tuple(part)) for part in parts]


def by_id(events: Iterable[Event]) -> Dict[str, List[Event]]:
    """Return the events of each job, element and trial."""
    logs = {}  # type: Dict[str, List[Event]]
    for event in events:
        logs.setdefault(event.job_id, []).append(event)
    return logs


def read(text: bytes) -> Tuple[Event, ...]:
    """Return the events of a log; incomplete or invalid lines are skipped."""
    rows = _EVENT.findall(text.decode("utf-8", "replace"))
    return tuple(
        [Event(what, plain_id(job) if "+" in job else job, int(at), value) for what, job, at, value in rows]
    )


def plain_id(job: str) -> str:
    """Return the id of a job; ``124_2`` for ``124+2``, element 2 of an array that runs packed trials."""
    return _PACKING.sub(r"_\1", job)


def last_started(events: Iterable[Event], element: str = "") -> str:
    """Return the id of the last job, or element of an array, that wrote its start; empty if none did."""
    started = [event.job_id for event in events if event.what == "started"]
    mine = [job for job in started if not element or job.endswith("_" + element)]
    return mine[-1] if mine else ""

"""The time limit: a signal before it, for the program to save its state, and one when it must end."""

from typing import NamedTuple, Optional

NOTICE, END, KILL = "notice", "end", "kill"


class Limit(NamedTuple):
    """When a job must end, in seconds since 1970, and how long before the program is told."""

    at: float
    notice: float
    last: float
    grace: float


def limit(now: float, at: float, notice: float) -> Limit:
    """Return the limit of a job that has just begun.

    The notice is at most half of the time that is left: a program that has just begun would die of it.
    """
    notice = min(notice, (at - now) / 2)
    last = min(notice / 2, 30.0)
    return Limit(at, notice, last, last / 3)


class Clock:
    """What is due: the notice, then TERM, then KILL, each once. The limit may be put off meanwhile."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.noticed = False
        self._ended: Optional[float] = None
        self._killed = False

    def near(self, now: float) -> bool:
        """Return whether the next signal seems due, so that the batch system is asked for the limit."""
        return self._ended is None and now >= self.limit.at - self._before

    @property
    def _before(self) -> float:
        return self.limit.last if self.noticed else self.limit.notice

    def put_off(self, at: Optional[float]) -> None:
        """Note what the batch system says of the limit: a later one counts."""
        if at is not None and at > self.limit.at:
            self.limit = self.limit._replace(at=at)

    def due(self, now: float, *, bell: bool = False) -> str:
        """Return what is due now; each is returned once, empty for nothing. ``bell``: the next one is."""
        if self._ended is not None:
            if now - self._ended < self.limit.grace or self._killed:
                return ""
            self._killed = True
            return KILL
        if now < self.limit.at - self._before and not bell:
            return ""
        if not self.noticed:
            self.noticed = True
            return NOTICE
        self._ended = now
        return END

"""Which task of an attempt failed first, how long before the next, and what the nodes showed then."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final, NamedTuple

from hpcdist.nodes import faults
from hpcdist.nodes.faults import End, NodeFaults
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory

_FIRST: Final = re.compile(r"([0-9]{1,3}) ([0-9]{1,9}|\?) ([A-Za-z0-9._-]{1,255})(?: (.*))?")
_MAX_BYTES: Final = 1 << 16
_SIGNS: Final = 3


class Failure(NamedTuple):
    """The first task of an attempt to fail; ``why`` is what its wrapper knew, mostly nothing.

    The order is that of the run directory's file system, where the first one leaves its name; ``at`` and the
    ends of others are by the clocks of their nodes. ``others``: those that failed by themselves after it,
    ``nodes``: all that showed anything.
    """

    job: str
    attempt: int
    rank: int | None
    host: str
    code: int
    why: str = ""
    at: float | None = None
    others: tuple[End, ...] = ()
    nodes: tuple[NodeFaults, ...] = ()

    @property
    def text(self) -> str:
        """A sentence with the evidence."""
        rank = "a task" if self.rank is None else f"rank {self.rank}"
        text = f"{rank} on {self.host} was the first to fail, with exit code {self.code}{self._next()}"
        if self.why:
            text += f": {self.why}"
        signs = [_shown(node) for node in self.nodes if node.signs][:_SIGNS]
        return "; ".join([text, *signs])

    def _next(self) -> str:
        if not self.others or self.at is None:
            return ""
        after, count = self.others[0], len(self.others)
        seconds = after.at - self.at
        if seconds < 0:
            clock = f"by whose clock it was {-seconds:.3g} s earlier"
            return f", and rank {after.rank} on {after.host} next, {clock}"
        more = f" and {count - 1} others" if count > 1 else ""
        return f", {seconds:.3g} s before rank {after.rank} on {after.host}{more}"


def of_attempt(directory: RunDirectory, attempt: Numbered) -> Failure | None:
    """Return the first failure of an attempt; None if no task has failed by itself."""
    nodes = faults.read(directory, attempt)
    ends = sorted(end for node in nodes for end in node.ends)
    with suppress(OSError):
        name = f"jobs/{attempt.job}/failure.{attempt.name}"
        text = directory.read(name, _MAX_BYTES).decode("utf-8", "replace")
        if line := _FIRST.fullmatch(text.strip()):
            rank = int(line[2]) if line[2] != "?" else None
            own = next((end for end in ends if end.rank == rank), None)
            others = tuple(end for end in ends if end is not own)
            found = Failure(attempt.job, attempt.number, rank, line[3], int(line[1]), line[4] or "")
            return found._replace(at=own and own.at, others=others, nodes=nodes)
    if not ends:
        return None
    first, *rest = ends
    found = Failure(attempt.job, attempt.number, first.rank, first.host, first.code)
    return found._replace(at=first.at, others=(*rest,), nodes=nodes)


def _shown(node: NodeFaults) -> str:
    more = f" and {len(node.signs) - _SIGNS} more" if len(node.signs) > _SIGNS else ""
    return f"{node.host}: {', '.join(sign.text for sign in node.signs[:_SIGNS])}{more}"

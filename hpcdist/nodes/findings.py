"""What is known of the nodes of a run: its first failure, and who is slower than its peers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hpcdist.nodes import failures, slowness
from hpcdist.nodes.failures import Failure
from hpcdist.nodes.slowness import Slowness
from hpcdist.runs import attempt_files
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory
from hpcdist.usage.samples import NodeUse

_MOST: Final = 20
"""Attempts that are looked at for a failure."""

_TOLD_TO_END: Final = frozenset({"timeout", "preempt", "terminated"})
"""Why attempts ended whose tasks did not fail: they ended after a signal."""


class Findings(NamedTuple):
    """The first failure of the last attempt that has one, and who was slow in the last attempt."""

    failure: Failure | None = None
    slowness: Slowness | None = None


def of_attempts(directory: RunDirectory, attempts: Sequence[Numbered], uses: Iterable[NodeUse]) -> Findings:
    """Return what is known of the nodes of these attempts, which are in the order of their starts."""
    if not attempts:
        return Findings()
    last = attempts[: -_MOST - 1 : -1]
    ended = (one for one in last if attempt_files.why(directory, one) not in _TOLD_TO_END)
    found = (failures.of_attempt(directory, attempt) for attempt in ended)
    failure = next(filter(None, found), None)
    slow = slowness.of_attempt(directory, directory.plan(), attempts[-1], uses)
    return Findings(failure, slow)

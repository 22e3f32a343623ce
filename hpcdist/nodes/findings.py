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
from hpcdist.runs.state import Attempt
from hpcdist.usage.samples import NodeUse

_LONG: Final = 600
"""Seconds: of a shorter attempt nobody asks which rank is slow, if it cannot be told."""

_MOST: Final = 20
"""Attempts that are looked at for a failure."""

_TOLD_TO_END: Final = frozenset({"timeout", "preempt", "terminated"})
"""Why attempts ended whose tasks did not fail: they ended after a signal."""


class Findings(NamedTuple):
    """The first failure of the last attempt that has one, and who was slow in the last attempt."""

    failure: Failure | None = None
    slowness: Slowness | None = None

    def sentences(self, attempts: Iterable[Attempt]) -> dict[str, str]:
        """Return a sentence for each by its title; what a program could record, only after a long attempt.

        ``attempts``: those of the run.
        """
        found = {"first failure": self.failure.text} if self.failure else {}
        one = self.slowness
        if one and (one.by or any((attempt.elapsed or 0) >= _LONG for attempt in attempts)):
            found["slow" if one.slow else "ranks"] = one.text
        return found


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

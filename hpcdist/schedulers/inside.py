"""Commands on the nodes of a job that runs, and batch systems that start them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from hpcdist.errors import Problem, SchedulerError
from hpcdist.host.command import Command


class Nodes(NamedTuple):
    """Nodes of a running job, with their numbers in its plan.

    ``job``: the job or the element of an array as the batch system knows it: ``12``, ``12_3``, ``12[3]``.
    """

    job: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]


@runtime_checkable
class StartsInside(Protocol):
    """What a scheduler may have besides: starting programs in a job that runs, beside those of the job."""

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield the commands that run these words once on each of these nodes, as few as possible.

        Each prints what the words print, whole lines at a time, and ends with their exit code; of several
        nodes with one that is not 0. ``terminal``: the words get a terminal, where that can be had.

        Raises:
            SchedulerError: where the batch system starts nothing in jobs from outside.
        """
        ...


def no_way_in(name: str, nodes: Nodes) -> SchedulerError:
    """Return the error of a batch system that starts nothing in jobs from outside."""
    message = f"{name} starts nothing in a running job from outside it"
    hint = f"where the site lets you in, `ssh {nodes.names[0]}` has a shell on the node, outside the job"
    return SchedulerError(Problem(message, hint=hint))

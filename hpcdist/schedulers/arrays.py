"""What a scheduler may have besides, of job arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from hpcdist.host.command import Command

if TYPE_CHECKING:
    from hpcdist.schedulers.job import Job


class ArrayLimit(NamedTuple):
    """The largest index of an array that a batch system takes by default, and its setting for that."""

    largest: int
    setting: str


@runtime_checkable
class LimitsArrays(Protocol):
    """What a scheduler may have besides: a limit of arrays, which a site may have changed."""

    @property
    def array_limit(self) -> ArrayLimit:
        """The default limit."""
        ...


@runtime_checkable
class CancelsElements(Protocol):
    """What a scheduler may have besides: an end of one element of an array, while the others go on."""

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return the command that ends the element with this index; one that is over is no failure."""
        ...

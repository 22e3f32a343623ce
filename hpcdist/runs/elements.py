"""The elements of an array, kept as ranges: of a million, ``0-999999`` is all that is kept."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator
from typing import Final

_MOST: Final = 1 << 20
"""How many indices of overlapping ranges are counted; no batch system accepts so many elements."""


class Elements:
    """The indices of an array's elements; empty for other jobs."""

    def __init__(self, ranges: Iterable[range] = ()) -> None:
        self.ranges = sorted((part for part in ranges if part), key=lambda part: part.start)
        self._single = frozenset(part.start for part in self.ranges if len(part) == 1)
        self._longer = [part for part in self.ranges if len(part) > 1]

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, index: object) -> bool:
        return index in self._single or any(index in part for part in self._longer)

    def outside(self, known: Container[int | None]) -> Iterator[int]:
        """Yield the indices that are not known; one of overlapping ranges may come twice."""
        return (index for part in self.ranges for index in part if index not in known)

    def first_outside(self, known: Container[int | None]) -> int | None:
        """Return the lowest index that is not known."""
        firsts = (next((index for index in part if index not in known), None) for part in self.ranges)
        return min((index for index in firsts if index is not None), default=None)

    @property
    def size(self) -> int:
        """How many there are."""
        if all(one[-1] < other.start for one, other in itertools.pairwise(self.ranges)):
            return sum(map(len, self.ranges))
        return len({*itertools.islice(itertools.chain.from_iterable(self.ranges), _MOST)})

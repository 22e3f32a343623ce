"""The elements of an array, stored as ranges: a million are just ``0-999999``.

The elements of a search may be numbered as their trials: ``1001-2000`` or ``3,17,20-24``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator
from typing import Final

_RANGE: Final = "[1-9][0-9]{0,8}(?:-[1-9][0-9]{0,8})?"
NUMBERS: Final = re.compile(f"(?:{_RANGE}(?:,{_RANGE})*)?")
"""A valid text of numbers."""

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
        """Yield the indices that are not known; an index in two ranges may come twice."""
        return (index for part in self.ranges for index in part if index not in known)

    def first_outside(self, known: Container[int | None]) -> int | None:
        """Return the lowest index that is not known."""
        firsts = (next((index for index in part if index not in known), None) for part in self.ranges)
        return min((index for index in firsts if index is not None), default=None)

    @property
    def text(self) -> str:
        """The indices as text: ``0-3,8``."""
        return ",".join(_text_of_range(part) for part in self.ranges)

    def at(self, place: int) -> int | None:
        """Return the number at this place, from 1; None after the last."""
        for part in self.ranges:
            if place <= len(part):
                return part[place - 1] if place > 0 else None
            place -= len(part)
        return None

    def place(self, number: int) -> int | None:
        """Return the place of a number, from 1; None if it is not there."""
        before = 0
        for part in self.ranges:
            if number in part:
                return before + part.index(number) + 1
            before += len(part)
        return None

    @property
    def size(self) -> int:
        """How many there are."""
        if all(one[-1] < other.start for one, other in itertools.pairwise(self.ranges)):
            return sum(map(len, self.ranges))
        return len({*itertools.islice(itertools.chain.from_iterable(self.ranges), _MOST)})


def _text_of_range(part: range) -> str:
    if len(part) == 1:
        return str(part.start)
    return f"{part[0]}-{part[-1]}" + (f":{part.step}" if part.step != 1 else "")


def numbers(text: str) -> Elements:
    """Return the numbers of a text: ``3,17,20-24``."""
    ends = (part.split("-") for part in text.split(",") if part)
    return Elements(range(int(end[0]), int(end[-1]) + 1) for end in ends)


def text_of(found: Iterable[int]) -> str:
    """Return numbers in rising order as text."""
    ranges: list[list[int]] = []
    for number in found:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)

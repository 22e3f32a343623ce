"""What the texts of ``batch`` mean that Slurm has forms of its own for: arrays.

Each is read once, into a frozen value whose ``str`` is Slurm's form again; schedulers are given the value.
Source: sbatch(1), ``--array``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from hpcdist.errors import Path, Problem

MOST_ELEMENTS: Final = 4_000_000
"""The largest index of an array that Slurm can be set up for (slurm.conf(5), MaxArraySize)."""

_NUMBER: Final = r"\d{1,18}"
"""At most 18 digits, so that a range has a length (``sys.maxsize``)."""
_LONG: Final = re.compile(r"\d{19,}", re.ASCII)
_RANGE: Final = rf"{_NUMBER}(?:-{_NUMBER}(?::[1-9]\d{{0,17}})?)?"
_ARRAY: Final = re.compile(rf"({_RANGE}(?:,{_RANGE})*)(?:%({_NUMBER}))?", re.ASCII)


class IndexRange(msgspec.Struct, frozen=True):
    """Indices at even distances: ``0-15:4``, ``0-15``, or a single one, which has no ``last``."""

    first: int
    last: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        last = "" if self.last is None else f"-{self.last}"
        return f"{self.first}{last}" if self.step is None else f"{self.first}{last}:{self.step}"

    @property
    def indices(self) -> range:
        """The indices themselves."""
        return range(self.first, (self.first if self.last is None else self.last) + 1, self.step or 1)


class ArraySpec(msgspec.Struct, frozen=True):
    """The elements of an array of jobs, and how many of them may run at once (None: all)."""

    ranges: tuple[IndexRange, ...]
    at_once: int | None = None

    @classmethod
    def parse(cls, text: str) -> ArraySpec:
        """Read ``7``, ``0-15``, ``0-15:4``, ``1,3,5-7``, each with ``%4`` for so many at once.

        Raises:
            ValueError: with a sentence, for a text that is no array.
        """
        match = _ARRAY.fullmatch(text)
        parts = match[1].split(",") if match else []
        ranges = tuple(IndexRange(*map(int, re.split("[-:]", part))) for part in parts)
        if not match or not all(part.indices for part in ranges):
            raise ValueError(f"{text!r} is no array of jobs")
        return cls(ranges, int(match[2]) if match[2] else None)

    def __str__(self) -> str:
        return self.indices if self.at_once is None else f"{self.indices}%{self.at_once}"

    @property
    def indices(self) -> str:
        """Its elements as Slurm's text, without how many run at once."""
        return ",".join(map(str, self.ranges))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return sum(len(part.indices) for part in self.ranges)

    @property
    def largest(self) -> int:
        """The largest index."""
        return max(part.indices[-1] for part in self.ranges)


def array_problems(text: str, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with an array."""
    try:
        array = ArraySpec.parse(_LONG.sub("9" * 18, text))
    except ValueError:
        yield Problem(f"{text!r} is no array of jobs", path, "write 0-15, 0-15:4, 1,3,5 or 0-15%4")
        return
    if max(array.size, array.largest, array.at_once or 0) > MOST_ELEMENTS:
        hint = "submit several arrays, or let each element do the work of many"
        yield Problem(f"no batch system takes so many elements, or such indices: {text!r}", path, hint)


def array_ranges(text: str) -> list[range]:
    """Return the indices that such a text has; of a text that is no array, nothing."""
    try:
        return [part.indices for part in ArraySpec.parse(text).ranges]
    except ValueError:
        return []

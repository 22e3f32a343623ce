"""Every value of a run's script with its origin, and its placement, from the plan that is stored with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from hpcdist.errors import HpcdistError
from hpcdist.plan.model import Plan
from hpcdist.report import limits, text
from hpcdist.report.limits import Share
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script import explained

_MOST_BYTES: Final = 1 << 26
_MOST_ON_A_NODE: Final = 100_000
_INVALID: Final = (
    HpcdistError,
    msgspec.MsgspecError,  # a ValueError from msgspec 0.21 on
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)


class Line(NamedTuple):
    """A value of the script and its origin."""

    text: str
    origin: str


class Section(NamedTuple):
    """Lines that belong together, as `hpcdist explain` prints them."""

    name: str
    lines: Sequence[Line]


def read(directory: RunDirectory) -> Plan | None:
    """Return the plan of a run; None if it cannot be read, as one of another version of hpcdist."""
    try:
        plan = msgspec.json.decode(directory.read("plan.json", _MOST_BYTES), type=Plan)
    except (OSError, *_INVALID):
        return None
    is_large = any(row.tasks_per_node > _MOST_ON_A_NODE for row in plan.placement.rows)
    return None if is_large else plan


def sections(plan: Plan, characters: int) -> Share[Section]:
    """Return what its script holds; ``left_out`` counts lines."""
    try:
        found = [*explained.lines(plan)]
    except _INVALID:
        return Share()
    shown = limits.first(found, characters, _size)
    return Share([*_grouped(shown.items)], shown.left_out)


def _size(line: explained.Line) -> int:
    _, value, origin = line
    return min(len(value), text.LONGEST) + min(len(str(origin)), text.LONGEST)


def _grouped(lines: Iterable[explained.Line]) -> Iterator[Section]:
    for name, members in groupby(lines, key=lambda line: line[0]):
        yield Section(name, [Line(value, str(origin)) for _, value, origin in members])

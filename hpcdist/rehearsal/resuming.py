"""Whether an attempt went on where the one before had got to.

That is shown by tracked steps, by numbers in names of checkpoints, or by what was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.rehearsal.checkpoints import Write, Written
from hpcdist.rehearsal.observed import Attempt, File
from hpcdist.rehearsal.steps import Step, Steps

_NUMBER: Final = re.compile(r"\d{1,18}")


class Resumption(NamedTuple):
    """How an attempt began: ``went_on`` is None if that is unknown.

    ``by``: what shows it: ``steps``, ``names`` or ``reading``. ``reached``: the step that the attempt before
    had got to, and ``began_at`` the first one of this, where steps are tracked.
    """

    went_on: bool | None = None
    by: str = ""
    reached: float | None = None
    began_at: float | None = None


def resumption(attempts: Sequence[Attempt], written: Written, number: int, steps: Steps) -> Resumption:
    """Return how attempt ``number``, from 1 on, began."""
    saved = [written[attempt.number] for attempt in attempts[: number + 1]]
    first, before, own = (steps.get(attempts[each].tracking, ()) for each in (0, number - 1, number))
    known = Resumption(reached=before[-1].step if before else None, began_at=own[0].step if own else None)
    for by, went_on in (
        ("steps", _by_steps(saved[:-1], first, own)),
        ("names", _by_names(saved[0], saved[-1], attempts[number].found)),
        ("reading", _by_reading(attempts[number], has_saved=bool(saved[-1]))),
    ):
        if went_on is not None:
            return known._replace(went_on=went_on, by=by)
    return known


def _by_steps(before: Sequence[Sequence[Write]], first: Sequence[Step], own: Sequence[Step]) -> bool | None:
    """Return whether its first step is later than the first of all, where one was saved that is."""
    saved = [write.began for writes in before for write in writes]
    if not (first and own and saved):
        return None
    start = first[0].step
    later = any(each.at < max(saved) and each.step > start for each in first)
    return own[0].step > start if later else None


def _by_names(first: Sequence[Write], own: Sequence[Write], found: Sequence[File]) -> bool | None:
    """Return whether the first checkpoint that it wrote has a later number than the first of all.

    Numbers count only where each checkpoint of the first attempt had a new and larger one: others are those
    of ranks.
    """
    numbers = [*_new_numbers(first)]
    if len(numbers) < 2 or any(one >= other for one, other in pairwise(numbers)):  # noqa: PLR2004
        return None
    there = max(map(_number, (file.path for file in found)), default=())
    begins = min(filter(None, map(_number, own[0].paths)), default=()) if own else ()
    return begins > numbers[0] if begins and there > numbers[0] else None


def _new_numbers(writes: Sequence[Write]) -> Iterator[tuple[int, ...]]:
    """Yield the lowest number that is new in each checkpoint; none where one has none."""
    known: set[tuple[int, ...]] = set()
    for write in writes:
        new = set(filter(None, map(_number, write.paths))) - known
        if not new:
            return
        known |= new
        yield min(new)


def _number(path: str) -> tuple[int, ...]:
    """Return the numbers in the name right below the checkpoints: 500 of ``checkpoint-500/rank_0.pt``."""
    return tuple(map(int, _NUMBER.findall(path.partition("/")[0])))


def _by_reading(own: Attempt, *, has_saved: bool) -> bool | None:
    """Return whether it read a checkpoint; one that wrote none may have been ended before it could."""
    found = {file.state for file in own.found}
    if own.read is None or not found:
        return None
    return True if own.read & found else False if has_saved else None

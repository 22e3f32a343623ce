"""Whether an attempt went on from the last whole checkpoint.

That is shown by tracked steps, by numbers in names of checkpoints, or by what was read; the last shows only
whether it went on at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from hpcdist.rehearsal.checkpoints import RESOLUTION, Write, Written, fewest_bytes, numbered, whole
from hpcdist.rehearsal.observed import Attempt, File
from hpcdist.rehearsal.steps import Step, Steps


class Resumption(NamedTuple):
    """How an attempt began: ``went_on`` is None if that is unknown.

    ``by``: what shows it: ``steps``, ``names`` or ``reading``. ``reached``: the step that the attempt before
    had got to, ``saved`` that of the last whole checkpoint, and ``began_at`` the first one of this, where
    steps are tracked.
    """

    went_on: bool | None = None
    by: str = ""
    reached: float | None = None
    began_at: float | None = None
    saved: float | None = None


def resumption(attempts: Sequence[Attempt], written: Written, place: int, steps: Steps) -> Resumption:
    """Return how attempt ``place``, from 1 on, began."""
    earlier, own = attempts[:place], attempts[place]
    metric = _most_tracked(steps.get(attempts[0].tracking, ()))
    tracked = [[step for step in steps.get(one.tracking, ()) if step.metric == metric] for one in attempts]
    complete = whole(earlier, written)
    saved = _saved(earlier, complete, tracked, margin=0)
    surely = _saved(earlier, complete, tracked, margin=RESOLUTION)
    before, begun = tracked[place - 1], tracked[place]
    known = Resumption(
        reached=before[-1].step if before else None,
        began_at=begun[0].step if begun else None,
        saved=saved[-1] if saved else None,
    )
    for by, went_on in (
        ("steps", _by_steps(tracked[0], saved, surely, begun)),
        ("names", _by_names([written[one.number] for one in attempts[: place + 1]], complete, own.found)),
        ("reading", _by_reading(own, has_saved=bool(written[own.number]))),
    ):
        if went_on is not None:
            return known._replace(went_on=went_on, by=by)
    return known


def _most_tracked(steps: Sequence[Step]) -> str:
    """Return the metric that is tracked most often: another one may count epochs."""
    counts = Counter(step.metric for step in steps)
    return max(counts, key=lambda name: counts[name], default="")


def _saved(
    attempts: Sequence[Attempt], complete: Written, tracked: Sequence[Sequence[Step]], margin: float
) -> list[float]:
    """Return the steps that had been tracked so many seconds before each whole checkpoint began."""
    writes = [
        (write, own)
        for attempt, own in zip(attempts, tracked, strict=False)
        for write in complete[attempt.number]
    ]
    least = fewest_bytes(complete)
    reached = (
        [step.step for step in own if step.at < write.began - margin][-1:]
        for write, own in writes
        if write.bytes >= least
    )
    return [step for steps in reached for step in steps]


def _by_steps(
    first: Sequence[Step], saved: Sequence[float], surely: Sequence[float], own: Sequence[Step]
) -> bool | None:
    """Return whether its first step is nearer to that of the last checkpoint than to that of the one before.

    A checkpoint may be written while the training goes on, so its own step is somewhat smaller. None where
    there was no step beside the first to be saved.
    """
    if not (own and first and saved) or saved[-1] <= first[0].step:
        return None
    steps = [first[0].step, *surely]
    earlier = max((step for step in steps if step < steps[-1]), default=steps[-1])
    return 2 * own[0].step > earlier + steps[-1]


def _by_names(written: Sequence[Sequence[Write]], complete: Written, found: Sequence[File]) -> bool | None:
    """Return whether the first checkpoint that it wrote is no older than the last whole one that it found.

    Numbers count only where each checkpoint of the first attempt had a new and larger one: others are those
    of ranks.
    """
    numbers = [*_new_numbers(written[0])]
    if len(numbers) < 2 or any(one >= other for one, other in pairwise(numbers)):  # noqa: PLR2004
        return None
    there = {numbered(file.path) for file in found}
    own = {numbered(path) for path in written[-1][0].paths} if written[-1] else set()
    begins, name = min(((number, stem) for stem, number in own if number), default=((), ""))
    if not begins or max((number for _, number in there), default=()) <= numbers[0]:
        return None
    last_whole = complete[len(written) - 2]
    broken = {numbered(path) for write in written[-2] if write not in last_whole for path in write.paths}
    last = max((number for stem, number in there - broken if stem == name), default=())
    return begins > numbers[0] and begins >= last


def _new_numbers(writes: Sequence[Write]) -> Iterator[tuple[int, ...]]:
    """Yield the lowest number that is new in each checkpoint; none where one has none."""
    known: set[tuple[int, ...]] = set()
    for write in writes:
        new = {number for _, number in map(numbered, write.paths) if number} - known
        if not new:
            return
        known |= new
        yield min(new)


def _by_reading(own: Attempt, *, has_saved: bool) -> bool | None:
    """Return whether it read a checkpoint; one that wrote none may have been ended before it could."""
    found = {file.state for file in own.found}
    if own.read is None or not found:
        return None
    return True if own.read & found else False if has_saved else None

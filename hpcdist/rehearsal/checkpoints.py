"""When checkpoints were written: files change, and some time later no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.rehearsal.observed import Attempt, File, Look

RESOLUTION: Final = 0.2
"""Seconds between two looks, about: what was faster is not measured."""

_QUIET: Final = 1.0
"""Seconds without a change after which another checkpoint begins."""


class Write(NamedTuple):
    """The writing of a checkpoint: from the first change of a file to the last, and the files that it left.

    ``bytes``: their sizes together. ``paths``: below the checkpoints.
    """

    began: float
    ended: float
    bytes: int
    paths: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """How long it took, which was no less than what is measured."""
        return max(RESOLUTION, self.ended - self.began)


Written = Mapping[int, Sequence[Write]]
"""The checkpoints that each attempt wrote, by its number."""


def written(attempts: Sequence[Attempt]) -> Written:
    """Return the checkpoints that these attempts wrote."""
    return {attempt.number: writes(attempt) for attempt in attempts}


def writes(attempt: Attempt) -> list[Write]:
    """Return the checkpoints that an attempt wrote."""
    found: list[list[tuple[Look, frozenset[int]]]] = []
    for before, after in pairwise(attempt.looks):
        inodes = frozenset(file.inode for file in changed(before, after))
        if not inodes:  # files were removed
            continue
        if found and after.at - found[-1][-1][0].at < _QUIET:
            found[-1].append((after, inodes))
        else:
            found.append([(after, inodes)])
    return [_write(looks) for looks in found]


def _write(looks: Sequence[tuple[Look, frozenset[int]]]) -> Write:
    inodes = frozenset[int]().union(*(inodes for _, inodes in looks))
    (first, _), (last, _) = looks[0], looks[-1]
    left = [file for file in last.files if file.inode in inodes]
    return Write(first.at, last.at, sum(file.bytes for file in left), tuple(file.path for file in left))


def changed(before: Look, after: Look) -> list[File]:
    """Return the files that are new or others than before; one that was renamed is."""
    known = set(before.files)
    return [file for file in after.files if file not in known]


def overwritten(attempts: Sequence[Attempt]) -> str | None:
    """Return a file that is written over in place, while there is no whole checkpoint beside it.

    A log that grows is none; nor is a small file beside the checkpoints, such as the name of the last one,
    or one of two that take turns.
    """
    looks = (pair for attempt in attempts for pair in pairwise(attempt.looks))
    return next((file for before, after in looks for file in _overwritten(before, after)), None)


def _overwritten(before: Look, after: Look) -> Iterator[str]:
    known = {(file.path, file.inode, file.born): file for file in before.files if file.born}
    unchanged = sum(file.bytes for file in set(before.files) & set(after.files))
    for file in after.files:
        old = known.get((file.path, file.inode, file.born))
        if old and old.changed != file.changed and old.bytes >= file.bytes and old.bytes > unchanged:
            yield file.path

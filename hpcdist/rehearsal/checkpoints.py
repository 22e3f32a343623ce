"""When checkpoints were written: files change, and some time later no more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.rehearsal.observed import Attempt, File, Look

RESOLUTION: Final = 0.2
"""Seconds between two looks, about: what was faster is not measured."""

_QUIET: Final = 1.0
"""Seconds without a change after which another checkpoint begins."""

_NUMBER: Final = re.compile(r"\d{1,18}")


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
    found: list[list[_Change]] = []
    for before, after in pairwise(attempt.looks):
        files = changed(before, after)
        if not files:  # files were removed
            continue
        change = _Change(after, tuple(files))
        if found and after.at - found[-1][-1].look.at < _QUIET and not _begins_another(found[-1], change):
            found[-1].append(change)
        else:
            found.append([change])
    return [_write(changes) for changes in found]


class _Change(NamedTuple):
    """A look, and the files that were new or others than before."""

    look: Look
    files: tuple[File, ...]


def _begins_another(changes: Sequence[_Change], change: _Change) -> bool:
    """Whether a change is of the next checkpoint, which did not wait for a second.

    A file has replaced one of this checkpoint, or is shorter than it was; or there is one with a higher
    number when none of this checkpoint changes any more. Files of ranks are written side by side.
    """
    there = {file.path: file for each in changes for file in each.files}
    again = [(there[file.path], file) for file in change.files if file.path in there]
    if any((old.inode, old.born) != (new.inode, new.born) or new.bytes < old.bytes for old, new in again):
        return True
    known = {file.inode for file in there.values()}
    if any(file.inode in known for file in change.files):
        return False
    numbers = dict(sorted(map(numbered, there)))  # the highest one of each name
    return any(
        stem in numbers and own > numbers[stem]
        for stem, own in (numbered(file.path) for file in change.files)
    )


def numbered(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the name right below the checkpoints without its numbers, and these.

    They are ``checkpoint-#`` and 500 of ``checkpoint-500/rank_0.pt``.
    """
    name = path.partition("/")[0]
    return _NUMBER.sub("#", name), tuple(map(int, _NUMBER.findall(name)))


def _write(changes: Sequence[_Change]) -> Write:
    inodes = {file.inode for change in changes for file in change.files}
    first, last = changes[0].look, changes[-1].look
    left = [file for file in last.files if file.inode in inodes]
    return Write(first.at, last.at, sum(file.bytes for file in left), tuple(file.path for file in left))


def is_whole(write: Write, attempt: Attempt) -> bool:
    """Whether a checkpoint is known to have been whole when its attempt was ended.

    After the signal the program had time for it.
    """
    if not attempt.endings or attempt.endings[0].kind == "notice":
        return True
    end = attempt.endings[0]
    return write.ended < end.at - (1.0 if end.kind == "write" else RESOLUTION)


def whole(attempts: Sequence[Attempt], written: Written) -> Written:
    """Return the checkpoints that are known to have been whole when their attempts were ended.

    The last one of an attempt has all names that each of those has behind which another one was written:
    it may have waited for the disk before its file was renamed.
    """
    usual = [{_pattern(path) for path in write.paths} for each in written.values() for write in each[:-1]]
    names = set.intersection(*usual) if usual else set()
    return {
        attempt.number: [
            write
            for write in written[attempt.number]
            if write != written[attempt.number][-1]
            or (is_whole(write, attempt) and names <= {_pattern(path) for path in write.paths})
        ]
        for attempt in attempts
    }


def _pattern(path: str) -> str:
    return _NUMBER.sub("#", path)


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


def unprotected(attempts: Sequence[Attempt], written: Written) -> str | None:
    """Return a file of a whole checkpoint that was seen under its last name when it was not complete."""
    least = fewest_bytes(written)
    found = (
        file
        for attempt in attempts
        for before, after in pairwise(attempt.looks)
        for file in _grown(before, after)
        if file.bytes >= least
        and _has_ended(file, after, [one for one in written[attempt.number] if is_whole(one, attempt)])
    )
    return next((file.path for file in found), None)


def fewest_bytes(written: Written) -> float:
    """Return below how many bytes a file is none of these checkpoints, but a log beside them."""
    return max((write.bytes for writes in written.values() for write in writes), default=0) / 2


def _grown(before: Look, after: Look) -> Iterator[File]:
    there = {(file.path, file.inode, file.born): file.bytes for file in before.files}
    for file in after.files:
        if there.get((file.path, file.inode, file.born), file.bytes) < file.bytes:
            yield file


def _has_ended(file: File, look: Look, writes: Sequence[Write]) -> bool:
    """Whether the file that grew then is one of a checkpoint, by this name, and not a log that goes on."""
    with_it = [write for write in writes if file.path in write.paths]
    return len(with_it) == 1 and with_it[0].began < look.at <= with_it[0].ended

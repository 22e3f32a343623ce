"""How far each attempt of a run got, and what the next one did again; what is not known is None.

Only the beginning and the end of each file are read, so that a hundred attempts with long records take no
longer than their listing.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.host import untrusted
from hpcdist.runs import attempt_files
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.state import Attempt
from hpcdist.schedulers.job import JobState, split_id

_FILE: Final = re.compile(r"rank-([0-9]{1,9})\..{1,200}\.jsonl")
FOLDER: Final = "tracking"
_MOST_FILES: Final = 10_000
_ENDS: Final = (1 << 14, 1 << 20)
"""The bytes that are read at an end of a file: fewer, then more."""


class Reached(NamedTuple):
    """How far an attempt got.

    ``number``: its HPCDIST_ATTEMPT. ``step``: the last step that its first rank recorded. ``lost_steps``:
    how many of its steps were done again, as the next attempt that recorded any went on from an earlier one.
    ``lost_seconds``: from the last change of a file of the checkpoints to its end, if it did not complete.
    """

    number: int | None = None
    step: float | None = None
    lost_steps: float | None = None
    lost_seconds: float | None = None


class Steps(NamedTuple):
    """The first two different steps of an attempt, and its last one."""

    first: float
    second: float | None
    last: float

    @property
    def begins_after(self) -> float:
        """The step from which it went on: one interval of its record before its first one."""
        ahead = self.second is not None and self.second > self.first
        return self.first - (self.second - self.first if ahead and self.second else 1)

    def done_again_by(self, follower: Steps) -> float:
        """Return how many of these steps the next attempt did again; 0 where it recorded later ones alone.

        A program that saves at a signal may record a step then that lies between two of its intervals.
        """
        return max(0.0, self.last - follower.begins_after) if follower.first <= self.last else 0.0


def read(directory: RunDirectory, attempts: Sequence[Attempt]) -> list[Reached]:
    """Return how far these attempts of a run got; they are in the order of their starts."""
    numbers = {(each.job, each.name): each for each in attempt_files.read(directory)}
    followers: dict[str, Steps | None] = {}
    found: list[Reached] = []
    for attempt in reversed(attempts):
        element = split_id(attempt.job)[1]
        own = numbers.get((attempt.job, attempt.name))
        steps = _steps(directory.path / FOLDER / attempt.job / attempt.name)
        follower = followers.get(element)
        lost = steps.done_again_by(follower) if steps and follower else None
        since = _since(directory, attempt, own, is_last=element not in followers) if own else None
        found.append(Reached(own and own.number, steps and steps.last, lost, since))
        followers[element] = steps or follower
    return found[::-1]


def _since(directory: RunDirectory, attempt: Attempt, own: Numbered, *, is_last: bool) -> float | None:
    """Return the seconds from the last checkpoint, or from the start where that is later, to the end."""
    if attempt.state == JobState.COMPLETED.value or attempt.started is None or attempt.ended is None:
        return None
    saved = _newest(directory, attempt) if is_last else attempt_files.saved(directory, own)
    return None if saved is None else max(0.0, attempt.ended - max(saved, attempt.started))


def _newest(directory: RunDirectory, attempt: Attempt) -> float | None:
    """Return when a file of the checkpoints was changed last; None if there is none, or too many to look."""
    top = directory.path / "checkpoints" / split_id(attempt.job)[1]
    times = [*islice(_times(top), _MOST_FILES + 1)]
    return max(times, default=None) if len(times) <= _MOST_FILES else None


def _times(folder: Path) -> Iterator[float]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _times(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # programs remove old checkpoints
                    yield entry.stat(follow_symlinks=False).st_mtime


def _steps(folder: Path) -> Steps | None:
    """Return the steps that the first rank of an attempt recorded."""
    ranks: dict[int, list[Path]] = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if name := _FILE.fullmatch(entry.name):
                ranks.setdefault(int(name[1]), []).append(Path(entry.path))
    files = ranks[min(ranks)] if ranks else []
    found = [steps for file in sorted(files) if (steps := _steps_of(file))]
    return found[0]._replace(last=max(each.last for each in found)) if found else None


def _steps_of(file: Path) -> Steps | None:
    for size in _ENDS:
        with suppress(OSError), untrusted.open_regular(file) as stream:
            head = _recorded(stream.read(size).split(b"\n"))  # no more lines of it are parsed than needed
            first = next(head, None)
            second = next((step for step in head if step != first), None)
            stream.seek(max(0, stream.seek(0, 2) - size))
            last = next(_recorded(reversed(stream.read(size).split(b"\n"))), None)
            if first is not None and last is not None:
                return Steps(first, second, last)
    return None


def _recorded(lines: Iterable[bytes]) -> Iterator[float]:
    """Yield the steps of these lines; one that is cut or damaged has none."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
            step = entry.get("step") if isinstance(entry, dict) and entry.get("metrics") else None
            if isinstance(step, int | float) and step is not True and math.isfinite(step):
                yield float(step)

"""What a rehearsal recorded: its attempts, their checkpoints and steps, and where each attempt resumed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, pairwise
from typing import Final, NamedTuple

from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import files
from hpcdist.tracking.files import Losses

# --- Attempts

_MOST_BYTES: Final = 1 << 28


class CheckpointFile(NamedTuple):
    """A file below the checkpoints; ``born`` is empty where the file system does not know it."""

    inode: int
    bytes: int
    changed: str
    born: str
    path: str

    @property
    def state(self) -> tuple[int, str]:
        """What identifies it at that time: a later file may have its inode."""
        return self.inode, self.changed


class Snapshot(NamedTuple):
    """The files that were there at a time, in seconds since 1970."""

    at: float
    files: tuple[CheckpointFile, ...]


class Ending(NamedTuple):
    """What ended an attempt on purpose: ``node`` and ``rank`` are empty for the signal before a limit."""

    at: float
    kind: str
    node: str = ""
    rank: str = ""


class RehearsedAttempt(NamedTuple):
    """One attempt; times are in seconds since 1970, by the clock of the node where the script ran."""

    number: int
    tracking: str
    """Its folder in ``tracking/``."""
    kind: str
    """How it was to be ended."""
    began: float
    looks: tuple[Snapshot, ...] = ()
    """The checkpoints whenever they had changed; the first look is what the attempt found."""
    endings: tuple[Ending, ...] = ()
    untried: tuple[str, ...] = ()
    """Nodes on which nothing could be ended."""
    is_enough: bool = False
    """It was the last attempt, and was ended since it had shown what it could."""
    ended: float | None = None
    code: int | None = None
    read: frozenset[tuple[int, str]] | None = None
    """The states of the files that were read; None where the file system does not show that."""

    @property
    def found(self) -> tuple[CheckpointFile, ...]:
        """The files that it found."""
        return self.looks[0].files if self.looks else ()

    @property
    def ended_by_itself(self) -> bool:
        """Whether its program ended, and nothing had been done to it."""
        return self.ended is not None and not self.endings


def read_attempts(directory: RunDirectory) -> tuple[RehearsedAttempt, ...]:
    """Return the attempts of a rehearsal, as far as they were recorded."""
    found: list[RehearsedAttempt] = []
    with suppress(OSError):  # there is no further one
        for number in count():
            text = directory.read(f"rehearsal/{number}", _MOST_BYTES).decode("utf-8", "replace")
            if (one := attempt(number, text.splitlines())) is None:
                break
            found.append(one)
    return tuple(found)


def attempt(number: int, lines: Iterable[str]) -> RehearsedAttempt | None:
    """Return the attempt that these lines record, without damaged lines; None if its begin is damaged."""
    events, looks = _split(lines)
    found: RehearsedAttempt | None = None
    endings: list[Ending] = []
    untried: list[str] = []
    states: set[tuple[int, str]] = set()
    for at, what, words in events:
        match what, words:
            case "begin", [tracking, kind]:
                found = RehearsedAttempt(number, tracking, kind, at, tuple(looks))
            case "end_by", [kind, node, rank]:
                endings.append(Ending(at, kind, node.strip("-"), rank.strip("-")))
            case "untried", [_, node]:
                untried.append(node)
            case "read", [inode, changed, *_] if inode.isdigit():
                states.add((int(inode), changed))
            case "enough", []:
                found = found and found._replace(is_enough=True)
            case "seen", ["yes"]:
                found = found and found._replace(read=frozenset(states))
            case "end", [code] if code.isdigit():
                found = found and found._replace(ended=at, code=int(code))
    return found and found._replace(endings=tuple(endings), untried=tuple(untried))


Event = tuple[float, str, list[str]]


def _split(lines: Iterable[str]) -> tuple[list[Event], list[Snapshot]]:
    """Return the other events, and the looks."""
    events: list[Event] = []
    looks: list[tuple[float, list[CheckpointFile]]] = []
    for line in lines:
        what, *words = (line if line.startswith("+") else line.rstrip()).split(" ")
        with suppress(ValueError, IndexError):
            if what == "+":
                looks[-1][1].append(_file(words))
            elif what == "files":
                looks.append((int(words[0]) / 1000, []))
            else:
                events.append((int(words[0]) / 1000, what, words[1:]))
    return events, [Snapshot(at, tuple(files)) for at, files in looks]


def _file(words: Sequence[str]) -> CheckpointFile:
    inode, size, changed, born, *path = words
    is_known = born.strip("0.-") != ""
    return CheckpointFile(
        int(inode), int(size), changed, born if is_known else "", " ".join(path).removeprefix("./")
    )


# --- The steps that the program tracked, by attempts


class TrackedStep(NamedTuple):
    """A step of the training, when it was recorded, in seconds since 1970, and its first metric."""

    at: float
    step: float
    metric: str = ""


Steps = Mapping[str, Sequence[TrackedStep]]
"""Steps of each attempt by its folder in ``tracking/``, sorted by time."""


def read_steps(directory: RunDirectory) -> Steps:
    """Return the steps that the processes of a run recorded; what cannot be read is left out."""
    found: dict[str, list[TrackedStep]] = {}
    losses = Losses()
    with suppress(OSError):
        for file in files.recorded(directory, losses):
            own = found.setdefault("/".join(file.path.parts[-3:-1]), [])
            with suppress(OSError):
                own += [
                    TrackedStep(entry.at, entry.step, next(iter(entry.metrics)))
                    for entry in files.entries(file, losses)
                    if entry.metrics and isinstance(entry.step, float) and math.isfinite(entry.step)
                ]
    return {name: sorted(steps) for name, steps in found.items()}


# --- When checkpoints were written: files change, and some time later no more

RESOLUTION: Final = 0.2
"""Seconds between two looks, about: faster writes are not measured."""

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
        """How long it took, at least ``RESOLUTION``."""
        return max(RESOLUTION, self.ended - self.began)


Written = Mapping[int, Sequence[Write]]
"""The checkpoints that each attempt wrote, by its number."""


def checkpoints_of(attempts: Sequence[RehearsedAttempt]) -> Written:
    """Return the checkpoints that these attempts wrote."""
    return {attempt.number: checkpoint_writes(attempt) for attempt in attempts}


def checkpoint_writes(attempt: RehearsedAttempt) -> list[Write]:
    """Return the checkpoints that an attempt wrote."""
    found: list[list[_Change]] = []
    for before, after in pairwise(attempt.looks):
        files = changed_files(before, after)
        if not files:  # files were removed
            continue
        change = _Change(after, tuple(files))
        if found and after.at - found[-1][-1].look.at < _QUIET and not _begins_another(found[-1], change):
            found[-1].append(change)
        else:
            found.append([change])
    return [_write(changes) for changes in found]


class _Change(NamedTuple):
    """A look, and the files that were new or had changed."""

    look: Snapshot
    files: tuple[CheckpointFile, ...]


def _begins_another(changes: Sequence[_Change], change: _Change) -> bool:
    """Whether a change begins the next checkpoint, within a second of this one.

    It does if a file replaces one of this checkpoint, or is shorter than it was; or if one has a higher
    number and no file of this checkpoint changes. Files of ranks are written in parallel.
    """
    there = {file.path: file for each in changes for file in each.files}
    again = [(there[file.path], file) for file in change.files if file.path in there]
    if any((old.inode, old.born) != (new.inode, new.born) or new.bytes < old.bytes for old, new in again):
        return True
    known = {file.inode for file in there.values()}
    if any(file.inode in known for file in change.files):
        return False
    numbers = dict(sorted(map(without_numbers, there)))  # the highest one of each name
    return any(
        stem in numbers and own > numbers[stem]
        for stem, own in (without_numbers(file.path) for file in change.files)
    )


def without_numbers(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the name right below the checkpoints without numbers; and those.

    ``checkpoint-500/rank_0.pt`` gives ``checkpoint-#`` and 500.
    """
    name = path.partition("/")[0]
    return _NUMBER.sub("#", name), tuple(map(int, _NUMBER.findall(name)))


def _write(changes: Sequence[_Change]) -> Write:
    inodes = {file.inode for change in changes for file in change.files}
    first, last = changes[0].look, changes[-1].look
    left = [file for file in last.files if file.inode in inodes]
    return Write(first.at, last.at, sum(file.bytes for file in left), tuple(file.path for file in left))


def is_whole(write: Write, attempt: RehearsedAttempt) -> bool:
    """Whether a checkpoint is known to have been whole when its attempt was ended.

    After the signal the program had time for it.
    """
    if not attempt.endings or attempt.endings[0].kind == "notice":
        return True
    end = attempt.endings[0]
    return write.ended < end.at - (1.0 if end.kind == "write" else RESOLUTION)


def whole_checkpoints(attempts: Sequence[RehearsedAttempt], written: Written) -> Written:
    """Return the checkpoints that are known to have been whole when their attempts were ended.

    The last one of an attempt must have the names that all earlier ones of any attempt have: it may have
    waited for the disk before its file was renamed.
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


def changed_files(before: Snapshot, after: Snapshot) -> list[CheckpointFile]:
    """Return the files that are new, changed or renamed."""
    known = set(before.files)
    return [file for file in after.files if file not in known]


def overwritten_file(attempts: Sequence[RehearsedAttempt]) -> str | None:
    """Return a file that is written over in place, while there is no other whole checkpoint.

    A log that grows does not count; nor does a small file next to the checkpoints, such as the name of the
    last one, or one of two files that take turns.
    """
    looks = (pair for attempt in attempts for pair in pairwise(attempt.looks))
    return next((file for before, after in looks for file in _overwritten(before, after)), None)


def _overwritten(before: Snapshot, after: Snapshot) -> Iterator[str]:
    known = {(file.path, file.inode, file.born): file for file in before.files if file.born}
    unchanged = sum(file.bytes for file in set(before.files) & set(after.files))
    for file in after.files:
        old = known.get((file.path, file.inode, file.born))
        if old and old.changed != file.changed and old.bytes >= file.bytes and old.bytes > unchanged:
            yield file.path


def half_written_file(attempts: Sequence[RehearsedAttempt], written: Written) -> str | None:
    """Return a file of a whole checkpoint that was seen under its final name before it was complete."""
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
    """Return the fewest bytes of a file of these checkpoints; a smaller one is a log next to them."""
    return max((write.bytes for writes in written.values() for write in writes), default=0) / 2


def _grown(before: Snapshot, after: Snapshot) -> Iterator[CheckpointFile]:
    there = {(file.path, file.inode, file.born): file.bytes for file in before.files}
    for file in after.files:
        if there.get((file.path, file.inode, file.born), file.bytes) < file.bytes:
            yield file


def _has_ended(file: CheckpointFile, look: Snapshot, writes: Sequence[Write]) -> bool:
    """Whether the file that grew then belongs to a checkpoint, by this name, and is not a growing log."""
    with_it = [write for write in writes if file.path in write.paths]
    return len(with_it) == 1 and with_it[0].began < look.at <= with_it[0].ended


# --- Whether an attempt resumed from the last whole checkpoint


class Resumption(NamedTuple):
    """How an attempt began: ``has_resumed`` is None if that is unknown.

    ``by``: what shows it: ``steps``, ``names`` or ``reading``. ``reached``: the last step of the attempt
    before, ``saved``: the step of the last whole checkpoint, ``began_at``: the first step of this, where
    steps are tracked.
    """

    has_resumed: bool | None = None
    by: str = ""
    reached: float | None = None
    began_at: float | None = None
    saved: float | None = None


def resumption(
    attempts: Sequence[RehearsedAttempt], written: Written, place: int, steps: Steps
) -> Resumption:
    """Return how attempt ``place``, from 1 on, began."""
    earlier, own = attempts[:place], attempts[place]
    metric = _most_tracked(steps.get(attempts[0].tracking, ()))
    tracked = [[step for step in steps.get(one.tracking, ()) if step.metric == metric] for one in attempts]
    complete = whole_checkpoints(earlier, written)
    saved = _saved(earlier, complete, tracked, margin=0)
    surely = _saved(earlier, complete, tracked, margin=RESOLUTION)
    before, begun = tracked[place - 1], tracked[place]
    known = Resumption(
        reached=before[-1].step if before else None,
        began_at=begun[0].step if begun else None,
        saved=saved[-1] if saved else None,
    )
    for by, has_resumed in (
        ("steps", _by_steps(tracked[0], saved, surely, begun)),
        ("names", _by_names([written[one.number] for one in attempts[: place + 1]], complete, own.found)),
        ("reading", _by_reading(own, has_saved=bool(written[own.number]))),
    ):
        if has_resumed is not None:
            return known._replace(has_resumed=has_resumed, by=by)
    return known


def _most_tracked(steps: Sequence[TrackedStep]) -> str:
    """Return the metric that is tracked most often: another one may count epochs."""
    counts = Counter(step.metric for step in steps)
    return max(counts, key=lambda name: counts[name], default="")


def _saved(
    attempts: Sequence[RehearsedAttempt],
    complete: Written,
    tracked: Sequence[Sequence[TrackedStep]],
    margin: float,
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
    first: Sequence[TrackedStep], saved: Sequence[float], surely: Sequence[float], own: Sequence[TrackedStep]
) -> bool | None:
    """Return whether its first step is nearer to the last checkpoint than to the one before.

    A checkpoint may be written while the training continues, so its own step is somewhat smaller. None if no
    step after the first one was saved.
    """
    if not (own and first and saved) or saved[-1] <= first[0].step:
        return None
    steps = [first[0].step, *surely]
    earlier = max((step for step in steps if step < steps[-1]), default=steps[-1])
    return 2 * own[0].step > earlier + steps[-1]


def _by_names(
    written: Sequence[Sequence[Write]], complete: Written, found: Sequence[CheckpointFile]
) -> bool | None:
    """Return whether the first checkpoint that it wrote is no older than the last whole one that it found.

    Numbers are used only if each checkpoint of the first attempt had a new and larger one: others number
    ranks.
    """
    numbers = [*_new_numbers(written[0])]
    if len(numbers) < 2 or any(one >= other for one, other in pairwise(numbers)):  # noqa: PLR2004
        return None
    there = {without_numbers(file.path) for file in found}
    own = {without_numbers(path) for path in written[-1][0].paths} if written[-1] else set()
    begins, name = min(((number, stem) for stem, number in own if number), default=((), ""))
    if not begins or max((number for _, number in there), default=()) <= numbers[0]:
        return None
    last_whole = complete[len(written) - 2]
    broken = {
        without_numbers(path) for write in written[-2] if write not in last_whole for path in write.paths
    }
    last = max((number for stem, number in there - broken if stem == name), default=())
    return begins > numbers[0] and begins >= last


def _new_numbers(writes: Sequence[Write]) -> Iterator[tuple[int, ...]]:
    """Yield the lowest new number of each checkpoint, up to the first without any."""
    known: set[tuple[int, ...]] = set()
    for write in writes:
        new = {number for _, number in map(without_numbers, write.paths) if number} - known
        if not new:
            return
        known |= new
        yield min(new)


def _by_reading(own: RehearsedAttempt, *, has_saved: bool) -> bool | None:
    """Return whether it read a checkpoint; one that wrote none may have been ended before it could."""
    found = {file.state for file in own.found}
    if own.read is None or not found:
        return None
    return True if own.read & found else False if has_saved else None

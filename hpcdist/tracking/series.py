"""The values of each metric over the steps of a training, in one line over all attempts."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from hpcdist.errors import ConfigError, Problem
from hpcdist.host import alarm
from hpcdist.runs import events, logs, packed
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import files, polyaxon, written
from hpcdist.tracking.files import Entry, Losses, Recorded, unread
from hpcdist.tracking.points import Points, add, in_line

# --- Metrics that the experiment's ``tracking`` finds in the output of a run

_LONGEST: Final = 4096
"""Characters of a line that are searched; a progress bar may be one line of megabytes."""

_LINES: Final = 1000
SECONDS: Final = 20.0
"""What so many lines may take; an expression can take for ever on a single one."""

_ELEMENT: Final = re.compile(r"job-([0-9]+)\.(?:(?:output|error)\.)?out")


Otherwise = TypeVar("Otherwise", float, None)


class Found(NamedTuple):
    """What one rank printed in the output of a job or of an element of an array, over all its attempts."""

    job: str
    rank: int
    series: dict[str, Points]


def found(directory: RunDirectory, plan: StoredPlan, seconds: float = SECONDS) -> Iterator[Found]:
    """Yield the metrics in the output; none if the experiment has no ``tracking``.

    ``seconds``: what a thousand lines may take.

    Raises:
        OSError: if the output cannot be read.
        ConfigError: if an expression takes too long.
    """
    search = _Search(plan)
    if search.metrics:
        started = packed.of_programs(directory)
        for file in logs.files(directory):
            element = _ELEMENT.fullmatch(file.name)
            job = events.last_started(started, element[1] if element else "")
            lines = logs.with_ranks(logs.lines(file), labelled=plan.labelled)
            yield from search.found(job, _in_time(lines, file, seconds))


class _Search:
    """The expressions, of which those that are none (of a plan that was edited) are left out."""

    def __init__(self, plan: StoredPlan) -> None:
        compiled = {name: _compiled(text) for name, text in plan.metric_patterns.items()}
        self.metrics = {name: pattern for name, pattern in compiled.items() if pattern}
        self._step = _compiled(plan.step_pattern or "")

    def found(self, job: str, lines: Iterable[tuple[int, str]]) -> Iterator[Found]:
        """Yield what each rank printed."""
        found: dict[int, dict[str, Points]] = {}
        steps: dict[int, float] = {}
        for rank, line in lines:
            before = steps.get(rank, math.nan)
            step = steps[rank] = _number(self._step, line, before) if self._step else math.nan
            for name, pattern in self.metrics.items():
                value = _number(pattern, line, None)
                if value is not None:
                    add(found.setdefault(rank, {}), name, (step, value, 0.0))
        for rank, series in found.items():
            yield Found(job, rank, series)


def _compiled(text: str) -> re.Pattern[str] | None:
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None
    return pattern if pattern.groups == 1 else None


def _number(pattern: re.Pattern[str], line: str, otherwise: Otherwise) -> float | Otherwise:
    match = pattern.search(line)
    try:
        return float(match[1]) if match else otherwise
    except (ValueError, TypeError):  # the group may be no number, or be left out
        return otherwise


def _in_time(items: Iterable[tuple[int, str]], file: Path, seconds: float) -> Iterator[tuple[int, str]]:
    left = iter(items)
    while block := [*islice(left, _LINES)]:
        with alarm.within(seconds, lambda: _late(file)):
            yield from ((rank, line[:_LONGEST]) for rank, line in block)


def _late(file: Path) -> ConfigError:
    hint = "make them simpler: a repetition inside a repetition can take for ever"
    return ConfigError(Problem(f"the expressions of `tracking` take too long on {file}", hint=hint))


# --- The values of each metric over the steps of a training, in one line over all attempts

__all__ = ["Key", "Metrics", "Points", "Summary", "continued", "numbers", "read", "read_others", "summary"]

_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Key(NamedTuple):
    """What one series is of: a job or an element of an array, a metric, and the rank that recorded it."""

    job: str
    name: str
    rank: int


class Metrics(NamedTuple):
    """What the processes of a run recorded, and how many lines of its files were damaged.

    ``others``: the entries without metrics, each with its job, in the order of attempts. ``unread``: a
    sentence for each file of metrics that could not be read whole.
    """

    series: dict[Key, Points]
    others: list[tuple[str, Entry]]
    damaged: int
    unread: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that was lost, as sentences."""
        if not self.damaged:
            return self.unread
        lines = "line of what it recorded was" if self.damaged == 1 else "lines of what it recorded were"
        return (f"{self.damaged} damaged {lines} skipped", *self.unread)


Part = tuple[Key, tuple[int, ...], float, Points]
"""The points that one process recorded: of what, in which attempt, from which time on."""


MOST: Final = 100_000
"""Series of one run: each costs about 2 KB, however few points it has."""


class _Room:
    """Which series there is room for: those that come first, whichever attempts they go on in."""

    def __init__(self, most: int) -> None:
        self._most, self._keys = most, set[Key]()
        self.remarks: tuple[str, ...] = ()

    def has(self, key: Key) -> bool:
        """Return whether a series is one of those."""
        if key not in self._keys:
            if len(self._keys) >= self._most:
                kept = "those that came first are kept"
                self.remarks = (f"it recorded more than {self._most} series of metrics: {kept}",)
                return False
            self._keys.add(key)
        return True


def read(directory: RunDirectory, plan: StoredPlan, seconds: float = SECONDS, most: int = MOST) -> Metrics:
    """Return what the processes of a run recorded, and other metrics of its files and its output.

    An attempt goes on where the one before it had got to, mostly from a checkpoint: from its first step on
    its values hold, and those of earlier attempts are left out; so where a step goes back in one file. Values
    without a step are counted. ``seconds``: what a thousand lines of the output may take; ``most``: series
    that are read.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    parts: list[Part] = []
    others: list[tuple[str, Entry]] = []
    losses, first, room = Losses(), files.first_of(directory), _Room(most)
    for file in files.recorded(directory, losses, first):
        parts += _parts(file, _entries(file, losses), others, room)
    for more in (
        _written(directory, others, losses.unread, room),
        _printed(found(directory, plan, seconds), directory, losses),
    ):
        known = {key for key, *_ in parts}
        named = (_named(part, first) for part in more)
        parts += [part for part in named if part[0] not in known]
    series: dict[Key, Points] = {}
    for key, _, _, points in sorted(parts, key=lambda part: part[:3]):
        series[key] = continued(series.get(key), points)
    return Metrics(series, others, losses.damaged, (*losses.unread, *room.remarks))


def _named(part: Part, first: Callable[[str], tuple[str, int]]) -> Part:
    """Return the points as those of the run's first job that has such an element."""
    (job, name, rank), attempt, *_ = part
    own, number = first(job)
    return Key(own, name, rank), (number, *attempt), part[2], part[3]


def read_others(directory: RunDirectory) -> Metrics:
    """Return what a run recorded beside metrics, which are left out; ``unread`` is of its processes alone.

    Raises:
        OSError: as `read` does.
    """
    losses = Losses()
    recorded = ((file.job, _entries(file, losses)) for file in files.recorded(directory, losses))
    others = ((each.job, each.entries) for each in written.with_others(directory))
    found = [
        (job, entry) for job, entries in chain(recorded, others) for entry in entries if not entry.metrics
    ]
    return Metrics({}, found, losses.damaged, (*losses.unread,))


def _entries(file: Recorded, losses: Losses) -> Iterator[Entry]:
    """Yield what one process recorded; a file that cannot be read costs what is in it."""
    try:
        yield from polyaxon.entries(file.path, losses) if file.is_polyaxon else files.entries(file, losses)
    except OSError as error:
        losses.unread.append(unread(file.path, error))


def _written(
    directory: RunDirectory, others: list[tuple[str, Entry]], unread: list[str], room: _Room
) -> Iterator[Part]:
    for number, each in enumerate(written.found(directory, unread)):
        file = Recorded(each.job, (0, number), each.rank, directory.path)
        yield from _parts(file, each.entries, others, room)


def _printed(found: Iterator[Found], directory: RunDirectory, losses: Losses) -> Iterator[Part]:
    try:
        for each in found:
            for name, points in each.series.items():
                yield Key(each.job, name, each.rank), (0, 0), 0.0, points
    except ConfigError as error:
        losses.unread.append(str(error))
    except OSError as error:
        losses.unread.append(unread(directory.logs, error))


def _parts(
    file: Recorded, entries: Iterable[Entry], others: list[tuple[str, Entry]], room: _Room
) -> Iterator[Part]:
    for name, points in _by_name(file, entries, others, room).items():
        yield Key(file.job, name, file.rank), file.attempt, points.times[0], points


def _by_name(
    file: Recorded, entries: Iterable[Entry], others: list[tuple[str, Entry]], room: _Room
) -> dict[str, Points]:
    """Return the points of each metric with room; append the entries without metrics to ``others``."""
    found: dict[str, Points] = {}
    for entry in entries:
        if not entry.metrics:
            others.append((file.job, entry))
        at, step = entry.at, entry.step
        if type(step) is not float:
            step = math.nan
        for name, value in entry.metrics.items():
            number = value if type(value) is float else _NOT_FINITE.get(str(value))
            if number is not None and (name in found or room.has(Key(file.job, name, file.rank))):
                add(found, name, (step, number, at))
    return found


def numbers(metrics: Mapping[str, float | str]) -> dict[str, float]:
    """Return the values of an entry as numbers; what is none is left out."""
    found = (
        (name, value if isinstance(value, float) else _NOT_FINITE.get(value))
        for name, value in metrics.items()
    )
    return {name: value for name, value in found if value is not None}


def continued(earlier: Points | None, new: Points) -> Points:
    """Return the points of earlier attempts that the new one does not repeat, then the new ones."""
    new = in_line(new, earlier.steps[-1] + 1 if earlier else 0.0)
    if earlier is None:
        return new
    kept = bisect_left(earlier.steps, new.steps[0])
    return Points(*(old[:kept] + more for old, more in zip(earlier, new, strict=True)))


class Summary(NamedTuple):
    """What a series comes to; ``low`` and ``high`` are of its finite values, None if it has none."""

    values: int
    last: float
    step: float
    low: float | None
    high: float | None


def summary(points: Points) -> Summary:
    """Return what a series comes to."""
    low, high = (
        choose(filter(math.isfinite, points.values), default=None)  # a list of them would fill the memory
        for choose in (min, max)
    )
    return Summary(len(points.values), points.values[-1], points.steps[-1], low, high)

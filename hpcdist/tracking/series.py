"""The values of each metric over the steps of a training, joined over all attempts."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from operator import le
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from hpcdist.base import alarm
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import attempt_files, events, logs
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import files, loggers
from hpcdist.tracking.files import Losses, Recorded, TrackedEntry

# --- The points of one series, in three arrays: 24 bytes each


class Points(NamedTuple):
    """Values by their steps, with the time in seconds since 1970: three arrays of one length, never empty."""

    steps: array[float]
    values: array[float]
    times: array[float]

    @property
    def last(self) -> float:
        """The last value of the metric."""
        return self.values[-1]


def add(found: dict[str, Points], name: str, point: tuple[float, float, float]) -> None:
    """Add step, value and time to the points of this metric."""
    points = found.get(name)
    if points is None:
        points = found[name] = Points(array("d"), array("d"), array("d"))
    points.steps.append(point[0])
    points.values.append(point[1])
    points.times.append(point[2])


def in_line(points: Points, start: float) -> Points:
    """Return these points with ascending steps; a point without a step follows the one before it.

    If a step goes back, as when a training is restored in the same process, the new values replace earlier
    values of that and later steps. ``start``: the step of the first point if it has none.
    """
    if not all(map(math.isfinite, points.steps)):
        points = points._replace(steps=array("d", _numbered(points.steps, start)))
    if all(map(le, points.steps, islice(points.steps, 1, None))):
        return points
    kept = Points(array("d"), array("d"), array("d"))
    for point in zip(*points, strict=True):
        if kept.steps and point[0] < kept.steps[-1]:
            first = bisect_left(kept.steps, point[0])
            for column in kept:
                del column[first:]
        for column, value in zip(kept, point, strict=True):
            column.append(value)
    return kept


def _numbered(steps: Iterable[float], start: float) -> Iterator[float]:
    for step in steps:
        number = step if math.isfinite(step) else start
        yield number
        start = number + 1


def continued(earlier: Points | None, new: Points) -> Points:
    """Return the earlier attempts' points that the new attempt does not repeat, then its own."""
    new = in_line(new, earlier.steps[-1] + 1 if earlier else 0.0)
    if earlier is None:
        return new
    kept = bisect_left(earlier.steps, new.steps[0])
    return Points(*(old[:kept] + more for old, more in zip(earlier, new, strict=True)))


class Summary(NamedTuple):
    """Count, last value and extremes; ``low`` and ``high`` are finite, None without a finite value."""

    values: int
    last: float
    step: float
    low: float | None
    high: float | None


def summary(points: Points) -> Summary:
    """Return the summary of a series."""
    low, high = (
        choose(filter(math.isfinite, points.values), default=None)  # a list of them would fill the memory
        for choose in (min, max)
    )
    return Summary(len(points.values), points.last, points.steps[-1], low, high)


# --- Fewer points of a long series


def means(values: Sequence[float], most: int) -> list[float]:
    """Return at most ``most`` values for a sparkline: the means of finite values of equal shares, or NaN."""
    shares = (values[start:end] for start, end in _shares(len(values), most))
    return [_mean([value for value in share if math.isfinite(value)]) for share in shares]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def extremes(values: array[float], most: int) -> list[int]:
    """Return the indices of at most ``most`` values (at least five) whose curve looks like the whole one.

    They are, in order, the first and the last, and from each of equal shares between them the lowest and the
    highest finite value, and one that is not finite, if any: a gap stays a gap.
    """
    count = len(values)
    if count <= most:
        return [*range(count)]
    kept = {0, count - 1}
    for start, end in _shares(count - 2, (most - 2) // 3):
        kept.update(_ends(values, range(start + 1, end + 1)))
    return sorted(kept)


def _ends(values: array[float], places: range) -> Iterator[int]:
    share = values[places.start : places.stop]
    finite = share if math.isfinite(sum(share)) else array("d", filter(math.isfinite, share))
    if finite:
        yield places.start + share.index(min(finite))
        yield places.start + share.index(max(finite))
    if len(finite) < len(share):
        yield next(place for place in places if not math.isfinite(values[place]))


def _shares(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each of at most ``most`` equal shares."""
    number = min(most, count)
    return pairwise(share * count // number for share in range(number + 1)) if number > 0 else iter(())


# --- Metrics that the experiment's ``tracking`` finds in the output of a run

_LONGEST: Final = 4096
"""The characters of a line that are searched; a progress bar may be one line of megabytes."""

_LINES: Final = 1000
SECONDS: Final = 20.0
"""What so many lines may take; an expression can take for ever on a single one."""

_ELEMENT: Final = re.compile(r"job-([0-9]+)\.(?:(?:output|error)\.)?out")


Otherwise = TypeVar("Otherwise", float, None)


class SeriesKey(NamedTuple):
    """The key of a series: a job or an element of an array, a metric, and the rank that recorded it."""

    job: str
    name: str
    rank: int


Part = tuple[SeriesKey, tuple[int, ...], float, Points]
"""The points that one process recorded: of what, in which attempt, from which time on."""


def _printed(directory: RunDirectory, plan: StoredPlan, seconds: float, losses: Losses) -> Iterator[Part]:
    """Yield the metrics in the output, over all attempts; none if the experiment has no ``tracking``."""
    search = _Search(plan)
    if not search.metrics:
        return
    started = attempt_files.of_programs(directory)
    try:
        for file in logs.files(directory):
            element = _ELEMENT.fullmatch(file.name)
            job = events.last_started(started, element[1] if element else "")
            lines = logs.with_ranks(logs.lines(file), labelled=plan.labelled)
            for rank, found in search.found(_in_time(lines, file, seconds)).items():
                for name, points in found.items():
                    yield SeriesKey(job, name, rank), (0, 0), 0.0, points
    except ConfigError as error:
        losses.unread.append(str(error))
    except OSError as error:
        losses.add(directory.logs, error)


class _Search:
    """The valid expressions of a plan, which may have been edited."""

    def __init__(self, plan: StoredPlan) -> None:
        compiled = {name: _compiled(text) for name, text in plan.metric_patterns.items()}
        self.metrics = {name: pattern for name, pattern in compiled.items() if pattern}
        self._step = _compiled(plan.step_pattern or "")

    def found(self, lines: Iterable[tuple[int, str]]) -> dict[int, dict[str, Points]]:
        """Return the metrics that each rank printed."""
        found: dict[int, dict[str, Points]] = {}
        steps: dict[int, float] = {}
        for rank, line in lines:
            before = steps.get(rank, math.nan)
            step = steps[rank] = _number(self._step, line, before) if self._step else math.nan
            for name, pattern in self.metrics.items():
                value = _number(pattern, line, None)
                if value is not None:
                    add(found.setdefault(rank, {}), name, (step, value, 0.0))
        return found


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
    except (ValueError, TypeError):  # the group may be missing, or not a number
        return otherwise


def _in_time(items: Iterable[tuple[int, str]], file: Path, seconds: float) -> Iterator[tuple[int, str]]:
    left = iter(items)
    while block := [*islice(left, _LINES)]:
        with alarm.within(seconds, lambda: _late(file)):
            yield from ((rank, line[:_LONGEST]) for rank, line in block)


def _late(file: Path) -> ConfigError:
    hint = "make them simpler: a repetition inside a repetition can take for ever"
    return ConfigError(Problem(f"the expressions of `tracking` take too long on {file}", hint=hint))


# --- All series of a run


class RecordedMetrics(NamedTuple):
    """The records of a run's processes, and the number of damaged lines in its files.

    ``others``: the entries without metrics, each with its job, in the order of attempts. ``unread``: a
    sentence for each file of metrics that could not be read whole.
    """

    series: dict[SeriesKey, Points]
    others: list[tuple[str, TrackedEntry]]
    damaged: int
    unread: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that was lost, as sentences."""
        if not self.damaged:
            return self.unread
        lines = "line of what it recorded was" if self.damaged == 1 else "lines of what it recorded were"
        return (f"{self.damaged} damaged {lines} skipped", *self.unread)


MOST: Final = 100_000
"""The most series of one run: each takes about 2 KB, even with few points."""


class _Collector:
    """Collects entries without metrics in ``others``, and the first ``most`` series, over all attempts."""

    def __init__(self, most: int) -> None:
        self._most, self._keys = most, set[SeriesKey]()
        self.others: list[tuple[str, TrackedEntry]] = []
        self.remarks: tuple[str, ...] = ()

    def parts(self, file: Recorded, entries: Iterable[TrackedEntry]) -> Iterator[Part]:
        """Yield the points of each metric of a process."""
        for name, points in self._by_name(file, entries).items():
            yield SeriesKey(file.job, name, file.rank), file.attempt, points.times[0], points

    def _by_name(self, file: Recorded, entries: Iterable[TrackedEntry]) -> dict[str, Points]:
        found: dict[str, Points] = {}
        for entry in entries:
            if not entry.metrics:
                self.others.append((file.job, entry))
            at, step = entry.at, entry.step
            if type(step) is not float:
                step = math.nan
            for name, value in entry.metrics.items():
                number = files.number(value)
                if number is not None and (name in found or self._has(SeriesKey(file.job, name, file.rank))):
                    add(found, name, (step, number, at))
        return found

    def _has(self, key: SeriesKey) -> bool:
        if key not in self._keys:
            if len(self._keys) >= self._most:
                kept = "those that came first are kept"
                self.remarks = (f"it recorded more than {self._most} series of metrics: {kept}",)
                return False
            self._keys.add(key)
        return True


def read(
    directory: RunDirectory, plan: StoredPlan, seconds: float = SECONDS, most: int = MOST
) -> RecordedMetrics:
    """Return the records of a run's processes, and metrics of its other files and its output.

    An attempt resumes where the previous one stopped, usually from a checkpoint: its values replace those of
    earlier attempts from its first step on, and likewise if a step goes back in one file. Values without a
    step are counted. ``seconds``: the limit for a thousand lines of the output; ``most``: the most series.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    parts: list[Part] = []
    losses, first, collector = Losses(), files.first_job(directory), _Collector(most)
    for file in files.recorded(directory, losses, first):
        parts += collector.parts(file, files.entries(file, losses))
    for more in (_of_loggers(directory, collector, losses), _printed(directory, plan, seconds, losses)):
        known = {key for key, *_ in parts}
        named = (_named(part, first) for part in more)
        parts += [part for part in named if part[0] not in known]
    series: dict[SeriesKey, Points] = {}
    for key, _, _, points in sorted(parts, key=lambda part: part[:3]):
        series[key] = continued(series.get(key), points)
    return RecordedMetrics(series, collector.others, losses.damaged, (*losses.unread, *collector.remarks))


def _named(part: Part, first: Callable[[str], tuple[str, int]]) -> Part:
    """Return the points under the name of the run's first job that has such an element."""
    (job, name, rank), attempt, *_ = part
    own, number = first(job)
    return SeriesKey(own, name, rank), (number, *attempt), part[2], part[3]


def _of_loggers(directory: RunDirectory, collector: _Collector, losses: Losses) -> Iterator[Part]:
    for number, each in enumerate(loggers.read(directory, losses)):
        yield from collector.parts(Recorded(each.job, (0, number), each.rank, directory.path), each.entries)


def read_others(directory: RunDirectory) -> RecordedMetrics:
    """Return a run's records other than metrics; ``unread`` covers only files of its processes.

    Raises:
        OSError: as `read` does.
    """
    losses = Losses()
    recorded = ((file.job, files.entries(file, losses)) for file in files.recorded(directory, losses))
    others = ((each.job, each.entries) for each in loggers.mlflow_runs(directory))
    found = [
        (job, entry) for job, entries in chain(recorded, others) for entry in entries if not entry.metrics
    ]
    return RecordedMetrics({}, found, losses.damaged, (*losses.unread,))

"""The values of each metric over the steps of a training, in one line over all attempts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import files, output, polyaxon, written
from hpcdist.tracking.entries import Entry, Reader
from hpcdist.tracking.files import Recorded

_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Key(NamedTuple):
    """What one series is of: a job or an element of an array, a metric, and the rank that recorded it."""

    job: str
    name: str
    rank: int


class Points(NamedTuple):
    """Values by their steps, with the time in seconds since 1970: three arrays of one length, never empty."""

    steps: array[float]
    values: array[float]
    times: array[float]


class Metrics(NamedTuple):
    """What the processes of a run recorded, and how many lines of its files were damaged.

    ``others``: the entries without metrics, each with its job, in the order of attempts. ``unread``: a
    sentence for each file of metrics that could not be read whole.
    """

    series: dict[Key, Points]
    others: list[tuple[str, Entry]]
    damaged: int
    unread: tuple[str, ...] = ()


Part = tuple[Key, tuple[int, int], float, Points]
"""The points that one process recorded: of what, in which attempt, from which time on."""


def read(directory: RunDirectory, plan: StoredPlan) -> Metrics:
    """Return what the processes of a run recorded, and other metrics of its files and its output.

    An attempt goes on where the one before it had got to, mostly from a checkpoint: from its first step on
    its values hold, and those of earlier attempts are left out. Values without a step are counted.

    Raises:
        OSError: if a file cannot be read.
    """
    parts: list[Part] = []
    others: list[tuple[str, Entry]] = []
    damaged, unread = 0, list[str]()
    for file in files.recorded(directory):
        if file.is_polyaxon:
            parts += _parts(file, polyaxon.entries(file.path), others)
            continue
        with files.opened(file) as stream:
            reader = Reader(stream)
            parts += _parts(file, reader.new(), others)
        damaged += reader.damaged
    for more in (_written(directory, others, unread), _printed(directory, plan)):
        known = {key for key, *_ in parts}
        parts += [part for part in more if part[0] not in known]
    series: dict[Key, Points] = {}
    for key, _, _, points in sorted(parts, key=lambda part: part[:3]):
        series[key] = continued(series.get(key), points)
    return Metrics(series, others, damaged, (*unread,))


def _written(directory: RunDirectory, others: list[tuple[str, Entry]], unread: list[str]) -> Iterator[Part]:
    for number, each in enumerate(written.found(directory, unread)):
        yield from _parts(Recorded(each.job, (0, number), each.rank, directory.path), each.entries, others)


def _printed(directory: RunDirectory, plan: StoredPlan) -> Iterator[Part]:
    for each in output.found(directory, plan):
        yield from _parts(Recorded(each.job, (0, each.attempt), each.rank, directory.path), each.entries, [])


def _parts(file: Recorded, entries: Iterable[Entry], others: list[tuple[str, Entry]]) -> Iterator[Part]:
    for name, points in _by_name(entries, file.job, others).items():
        yield Key(file.job, name, file.rank), file.attempt, points.times[0], points


def _by_name(entries: Iterable[Entry], job: str, others: list[tuple[str, Entry]]) -> dict[str, Points]:
    """Return the points of each metric; append the entries without metrics to ``others``."""
    found: dict[str, Points] = {}
    for entry in entries:
        if not entry.metrics:
            others.append((job, entry))
        at, step = entry.at, entry.step
        if type(step) is not float:
            step = math.nan
        for name, value in entry.metrics.items():
            number = value if type(value) is float else _NOT_FINITE.get(str(value))
            if number is None:
                continue
            points = found.get(name)
            if points is None:
                points = found[name] = Points(array("d"), array("d"), array("d"))
            points.steps.append(step)
            points.values.append(number)
            points.times.append(at)
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
    last = earlier.steps[-1] if earlier else -1.0
    new = new._replace(steps=array("d", _numbered(new.steps, last + 1)))
    if earlier is None:
        return new
    kept = [number for number, step in enumerate(earlier.steps) if step < new.steps[0]]
    if len(kept) < len(earlier.steps):
        earlier = Points(*(array("d", (values[number] for number in kept)) for values in earlier))
    return Points(*(old + more for old, more in zip(earlier, new, strict=True)))


def _numbered(steps: Iterable[float], start: float) -> Iterator[float]:
    """Yield the steps; what has none comes one after the one before it."""
    for step in steps:
        number = start if math.isnan(step) else step
        yield number
        start = number + 1


class Summary(NamedTuple):
    """What a series comes to; ``low`` and ``high`` are of its finite values, None if it has none."""

    values: int
    last: float
    step: float
    low: float | None
    high: float | None


def summary(points: Points) -> Summary:
    """Return what a series comes to."""
    finite = [value for value in points.values if math.isfinite(value)]
    return Summary(
        len(points.values),
        points.values[-1],
        points.steps[-1],
        min(finite, default=None),
        max(finite, default=None),
    )

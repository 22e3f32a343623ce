"""What runs recorded: series of metrics, and the trials of a search."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hpcdist.base.errors import ConfigError, Problem, did_you_mean
from hpcdist.schedulers.job import split_id
from hpcdist.tracking import series
from hpcdist.tracking.series import Points, SeriesKey


class Series(NamedTuple):
    """The values of one metric by their steps, in one line over all attempts: three arrays of one length.

    ``trial``: the number of the trial or element that recorded it, None of a run without these. ``times``:
    seconds since 1970.
    """

    name: str
    trial: int | None
    rank: int
    steps: array[float]
    values: array[float]
    times: array[float]


@dataclass(frozen=True)
class Metrics:
    """What the processes of a run recorded; ``warnings``: what of it could not be read, as sentences."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Series:
        """Return the series of this metric: of the lowest rank, of the first trial that recorded it.

        Raises:
            ConfigError: if none has this name.
        """
        for one in self.series:
            if one.name == name:
                return one
        hint = did_you_mean(name, {one.name for one in self.series}, most=10)
        raise ConfigError(Problem(f"there is no metric {name!r}", hint=hint))

    @property
    def last(self) -> dict[str, float]:
        """The last value of each metric, of the series that ``metrics[name]`` is."""
        return {one.name: one.values[-1] for one in reversed(self.series)}


def metrics_of(found: series.RecordedMetrics) -> Metrics:
    """Return what was read from a run, in the order of trials, names and ranks."""
    every = [_series(key, points) for key, points in found.series.items()]
    return Metrics(tuple(sorted(every, key=lambda one: (one.trial or 0, one.name, one.rank))), found.warnings)


def _series(key: SeriesKey, points: Points) -> Series:
    element = split_id(key.job)[1]
    return Series(key.name, int(element) if element else None, key.rank, *points)


class Trial(NamedTuple):
    """One trial of a search.

    ``state``: as `hpcdist sweep status` shows it. ``metrics``: the last value of each.
    """

    number: int
    params: Mapping[str, Any]
    state: str
    metrics: Mapping[str, float]

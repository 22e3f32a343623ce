"""What a study has measured: throughput, speed-up and efficiency of each size, their costs, and the laws."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, Problem, comma_list
from hpcdist.runs.rundir import Run
from hpcdist.runs.states import Report
from hpcdist.scaling import fits
from hpcdist.scaling.fits import Fit
from hpcdist.scaling.study import Member, Study
from hpcdist.schedulers.job import JobState
from hpcdist.tracking import series
from hpcdist.tracking.points import Points

EFFICIENT: Final = 0.8
_THROUGHPUT: Final = re.compile(r"per_sec(?:ond)?$|throughput$|/s(?:ec)?$")
_COMMUNICATION: Final = (
    "horovod/allreduce/share", "pytorch/communication/exposed_share", "pytorch/communication/share"
)  # fmt: skip
"""The first of these that a run has: how much of its time it communicated, and did nothing else if known."""

_LAWS: Final = {"weak": ("Gustafson", "universal"), "strong": ("Amdahl", "universal")}


class Measured(NamedTuple):
    """What one run has measured, None where it has not: only jobs that completed count.

    ``throughput``: the median of the values of the metric, which the first steps do not move. ``step``: the
    median seconds from one step to the next. ``communication``: a share of the time.
    """

    run: str
    member: Member
    state: str
    tasks: int | None = None
    gpus: int | None = None
    throughput: float | None = None
    step: float | None = None
    communication: float | None = None


class Spread(NamedTuple):
    """The median of repetitions, with the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of these values, of which there is one at least."""
        return cls(statistics.median(values), min(values), max(values))

    def over(self, divisor: float) -> Spread:
        """Return the spread of the values divided by this."""
        return Spread(*(value / divisor for value in self))


class Size(NamedTuple):
    """What was measured on so many nodes by so many ``runs``.

    ``speedup`` and ``efficiency`` are against the median of the smallest size. Costs are in GPU-hours, or in
    node-hours of a job without GPUs: of a thousand steps, and of a million of what the metric counts.
    """

    nodes: int
    tasks: int | None
    gpus: int | None
    runs: int
    throughput: Spread
    speedup: Spread
    efficiency: Spread
    communication: float | None
    thousand_steps: float | None
    million: float


class Result(NamedTuple):
    """A study with what was measured; ``left_out``: why sizes or repetitions are not, as sentences."""

    study: Study
    metric: str
    sizes: tuple[Size, ...]
    fits: tuple[Fit, ...]
    left_out: tuple[str, ...]

    @property
    def largest_efficient(self) -> int | None:
        """The largest number of nodes whose efficiency is at least `EFFICIENT`."""
        return max((size.nodes for size in self.sizes if size.efficiency.median >= EFFICIENT), default=None)

    @property
    def unit(self) -> str:
        """The unit of costs."""
        return "GPU-hours" if all(size.gpus for size in self.sizes) else "node-hours"


def result(study: Study, reports: Iterable[tuple[Report, Member]], metric: str = "") -> Result:
    """Return what the runs of a study have measured by this metric, else by that of the study.

    Raises:
        ConfigError: if runs have completed, and none has the metric, or it is not clear which it is.
    """
    found = [(report, member, _read(report.run)) for report, member in reports]
    over = [read for report, _, read in found if report.status.state is JobState.COMPLETED]
    metric = metric or study.metric or _metric(over)
    if over and not any(metric in read for read in over):
        raise ConfigError(_unknown(f"no run has recorded the metric {metric!r}", over))
    measured = [_measured(report, member, read, metric) for report, member, read in found]
    sizes = tuple(_sizes(measured))
    points = [(one.member.nodes, one.throughput) for one in measured if one.throughput]
    laws = (fits.fit(law, points) for law in _LAWS[study.mode])
    return Result(study, metric, sizes, tuple(filter(None, laws)), tuple(_left_out(study, measured, metric)))


def _read(run: Run) -> dict[str, Points]:
    """Return the metrics of a run, of the lowest rank that recorded each; none if they cannot be read."""
    try:
        found = series.read(run.directory, run.directory.plan()).series
    except OSError:
        return {}
    return {key.name: points for key, points in sorted(found.items(), reverse=True)}


def _metric(read: Iterable[dict[str, Points]]) -> str:
    """Return the only metric whose name is that of a throughput.

    Raises:
        ConfigError: if there is none or several, and a run has completed.
    """
    found = [*read]
    names = dict.fromkeys(name for each in found for name in each if _THROUGHPUT.search(name))
    if len(names) != 1 and found:
        raise ConfigError(_unknown("which metric is the throughput is not clear from its name", found))
    return next(iter(names), "")


def _unknown(message: str, read: Iterable[dict[str, Points]]) -> Problem:
    names = [*dict.fromkeys(name for each in read for name in each)]
    listed = f"name one of {comma_list(names, most=10)} by --metric" if names else _RECORD
    return Problem(message, hint=listed)


_RECORD: Final = "record one with `hpcdist_tracking`, or find it in the output: `tracking: {metrics: ...}`"


def _measured(report: Report, member: Member, read: dict[str, Points], metric: str) -> Measured:
    run, state = report.run, report.status.state
    plan = run.directory.plan()
    bare = Measured(run.name, member, state.value, plan.tasks, plan.gpus)
    values = [value for value in read[metric].values if 0 < value < math.inf] if metric in read else []
    if state is not JobState.COMPLETED or not values:
        return bare
    shares = next((read[name].values for name in _COMMUNICATION if name in read), ())
    return bare._replace(
        throughput=statistics.median(values),
        step=_seconds_per_step(read[metric]),
        communication=_median(shares),
    )


def _seconds_per_step(points: Points) -> float | None:
    """Return the median time between steps; None where the values have no times, or there is one alone."""
    found = [
        (until - since) / (step - before)
        for (before, since), (step, until) in pairwise(zip(points.steps, points.times, strict=True))
        if step > before and until > since > 0
    ]
    return statistics.median(found) if found else None


def _sizes(measured: Sequence[Measured]) -> Iterator[Size]:
    by_nodes: dict[int, list[Measured]] = {}
    for one in sorted(measured, key=lambda one: one.member.nodes):
        if one.throughput is not None:
            by_nodes.setdefault(one.member.nodes, []).append(one)
    base: tuple[int, float] | None = None
    for nodes, runs in by_nodes.items():
        throughput = Spread.of([one.throughput for one in runs if one.throughput])
        base = base or (nodes, throughput.median)
        speedup = throughput.over(base[1])
        rate = (runs[0].gpus or nodes) / 3600
        step, share = _median(one.step for one in runs), _median(one.communication for one in runs)
        yield Size(
            nodes=nodes,
            tasks=runs[0].tasks,
            gpus=runs[0].gpus,
            runs=len(runs),
            throughput=throughput,
            speedup=speedup,
            efficiency=speedup.over(nodes / base[0]),
            communication=share,
            thousand_steps=None if step is None else 1000 * step * rate,
            million=1e6 / throughput.median * rate,
        )


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _left_out(study: Study, measured: Iterable[Measured], metric: str) -> Iterator[str]:
    """Yield why a run that was asked for has measured nothing."""
    there = {(one.member.nodes, one.member.repetition): one for one in measured}
    for member in sorted(study.members, key=lambda member: (member.nodes, member.repetition)):
        one = there.get((member.nodes, member.repetition))
        what = f"{member.nodes} node{'s' * (member.nodes > 1)}, repetition {member.repetition}"
        if one is None:
            yield f"{what}: was not submitted"
        elif one.state != JobState.COMPLETED.value:
            yield f"{what}: {one.run} ({one.state.replace('_', ' ')})"
        elif one.throughput is None:
            yield f"{what}: {one.run} has not recorded {metric}"

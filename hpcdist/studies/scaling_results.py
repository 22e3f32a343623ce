"""What a scaling study has measured: throughput, efficiency and cost of each size, and the laws."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final, NamedTuple

from hpcdist.base.errors import ConfigError, Problem, comma_list
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState
from hpcdist.studies.scaling_runs import Member, Ranks, Study, was_submitted
from hpcdist.tracking import series
from hpcdist.tracking.series import Points

# --- What one run has measured, from the metrics that its ranks recorded

LEAST: Final = 1e-30
MOST: Final = 1e30
"""A throughput is between these: sums and squares of other values may overflow."""

_COMMUNICATION: Final = (
    "horovod/allreduce/share", "pytorch/communication/exposed_share", "pytorch/communication/share"
)  # fmt: skip
"""The share of time in communication is the first of these that a run has."""

Recorded = Mapping[str, Mapping[int, Points]]
"""Metrics by their names and the ranks that recorded them, the lowest first."""


class RunMeasurement(NamedTuple):
    """What one run has measured; None where it has not: only jobs that completed count."""

    run: str
    member: Member
    state: str
    tasks: int | None = None
    gpus: int | None = None
    gpus_had: int | None = None
    """All GPUs of whole nodes, also those that the job does not use."""
    throughput: float | None = None
    """The median of the metric's values, which the first steps do not move; of several ranks, the sum."""
    step: float | None = None
    """The median seconds from one step to the next."""
    communication: float | None = None
    """The share of the time in communication."""
    is_recorded: bool = False
    """There are values of the metric, which may be no throughput."""
    summed: int | None = None
    """The number of ranks that the throughput is the sum of."""
    ranks: int | None = None
    """The number of ranks of the job, where it is known."""
    without: tuple[int, ...] = ()
    """The ranks that recorded no value."""


def read_metrics(run: Run) -> tuple[Recorded, tuple[str, ...]]:
    """Return the metrics of a run, none if they cannot be read; and what was lost of them, as sentences."""
    try:
        found = series.read(run.directory, run.directory.plan())
    except OSError as error:
        return {}, (f"its metrics cannot be read: {error.strerror}",)
    by_name: dict[str, dict[int, Points]] = {}
    for key in sorted(found.series):
        by_name.setdefault(key.name, {}).setdefault(key.rank, found.series[key])
    return by_name, found.warnings


def measure(report: Report, member: Member, recorded: Recorded, metric: str, ranks: Ranks) -> RunMeasurement:
    """Return what a run has measured by this metric."""
    run, state = report.run, report.status.state
    plan = run.directory.plan()
    counts = (plan.tasks, plan.gpus, plan.gpus_had)
    bare = RunMeasurement(run.name, member, state.value, *counts, is_recorded=metric in recorded)
    if state is not JobState.COMPLETED or metric not in recorded:
        return bare
    if ranks == "sum":
        there = recorded[metric].keys()
        without = tuple(rank for rank in range(plan.processes or 0) if rank not in there)
        bare = bare._replace(summed=len(there), ranks=plan.processes, without=without)
    by_rank = [*recorded[metric].values()]
    shares = next((_first(recorded[name]).values for name in _COMMUNICATION if name in recorded), ())
    return bare._replace(
        throughput=_throughput(by_rank if ranks == "sum" else by_rank[:1]),
        step=_seconds_per_step(_first(recorded[metric])),
        communication=median(share for share in shares if math.isfinite(share)),
    )


def _first(by_rank: Mapping[int, Points]) -> Points:
    return next(iter(by_rank.values()))


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of known values; None without any."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _throughput(ranks: Iterable[Points]) -> float | None:
    """Return the sum over these ranks; None if one of them has no throughput."""
    medians = [median(value for value in each.values if LEAST <= value <= MOST) for each in ranks]
    known = [each for each in medians if each is not None]
    return sum(known) if len(known) == len(medians) else None


def _seconds_per_step(points: Points) -> float | None:
    """Return the median time between steps; None where the values have no times, or for a single one."""
    found = [
        (until - since) / (step - before)
        for (before, since), (step, until) in pairwise(zip(points.steps, points.times, strict=True))
        if step > before and until > since > 0
    ]
    return statistics.median(found) if found else None


# --- Laws of scalability, fitted to the throughput of several sizes
#
# Amdahl (1967), for a problem of fixed size: X(n) = L / (s + (1 - s) / n). Gustafson (1988), for one that
# grows with the nodes: X(n) = L (s + (1 - s) n). Gunther's universal scalability law (2007), with contention
# and coherency: X(n) = L n / (1 + c (n - 1) + k n (n - 1)); its maximum is at sqrt((1 - c) / k). Each is
# linear in its parameters once it is written for X or n / X, so that the fit needs no iterations.

Point = tuple[int, float]
"""A number of nodes, and a throughput that was measured with it."""

_SINGULAR: Final = 1e-9


class Fit(NamedTuple):
    """A law with its parameters, which are shares of the work: each is 0 or more."""

    law: str
    one_node: float
    """The throughput of one node by the law."""
    parameters: dict[str, float]
    residuals: tuple[tuple[int, float], ...]
    """For each point, how far the measured throughput is above the law, as a share of the law's."""
    is_exact: bool
    """There are only as many sizes as parameters, so that residuals say nothing."""
    peak: float | None = None
    """The number of nodes with the highest throughput, if there is a highest one."""


class _Law(NamedTuple):
    """A law as a sum of ``columns`` of n with coefficients of 0 or more, which is equal to ``left``."""

    name: str
    columns: tuple[Callable[[float], float], ...]
    left: Callable[[float, float], float]
    read: Callable[[Sequence[float]], tuple[float, dict[str, float]] | None]
    """Returns the throughput of one node and the parameters; None if the coefficients have none."""
    at: Callable[[float, dict[str, float]], float]
    """Returns the throughput of n nodes relative to one node."""


def _serial(one_node: float, serial: float) -> tuple[float, dict[str, float]]:
    return one_node, {"serial": serial}


AMDAHL: Final = _Law(
    "Amdahl",
    (lambda _: 1.0, float),
    lambda n, x: n / x,
    lambda c: _serial(1 / sum(c), c[1] / sum(c)),
    lambda n, p: 1 / (p["serial"] + (1 - p["serial"]) / n),
)
GUSTAFSON: Final = _Law(
    "Gustafson",
    (lambda _: 1.0, float),
    lambda _, x: x,
    lambda c: _serial(sum(c), c[0] / sum(c)),
    lambda n, p: p["serial"] + (1 - p["serial"]) * n,
)
UNIVERSAL: Final = _Law(
    "universal",
    (lambda _: 1.0, lambda n: n - 1, lambda n: n * (n - 1)),
    lambda n, x: n / x,
    lambda c: (1 / c[0], {"contention": c[1] / c[0], "coherency": c[2] / c[0]}) if c[0] > 0 else None,
    lambda n, p: n / (1 + p["contention"] * (n - 1) + p["coherency"] * n * (n - 1)),
)
LAWS: Final = {law.name: law for law in (AMDAHL, GUSTAFSON, UNIVERSAL)}


def throughput_at(fit: Fit, nodes: float) -> float:
    """Return the throughput of a law with so many nodes."""
    return fit.one_node * LAWS[fit.law].at(nodes, fit.parameters)


def fit_law(law: str, points: Iterable[Point]) -> Fit | None:
    """Fit a law, with the least squares of relative errors; None for fewer sizes than it has parameters.

    Points whose throughput is not above zero are left out: no law has one.

    Raises:
        ImportError: if numpy is not installed.
    """
    found, kind = [(n, x) for n, x in points if 0 < x < math.inf], LAWS[law]
    sizes = {nodes for nodes, _ in found}
    if len(sizes) < len(kind.columns):
        return None
    rows = [[column(n) / kind.left(n, x) for column in kind.columns] for n, x in found]
    read = kind.read(_least_squares(rows))
    if read is None:
        return None
    one_node, parameters = read
    fitted = Fit(law, one_node, parameters, (), len(sizes) == len(kind.columns), _peak(parameters))
    return fitted._replace(residuals=tuple((n, x / throughput_at(fitted, n) - 1) for n, x in found))


def _peak(parameters: dict[str, float]) -> float | None:
    """Return the number of nodes with the most throughput; None where the law has none."""
    coherency = parameters.get("coherency", 0.0)
    return math.sqrt(max(1.0, (1 - parameters["contention"]) / coherency)) if coherency else None


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the coefficients of 0 or more with which the columns come nearest to 1 in each row.

    There are three columns at most: each subset is solved without bounds, and the best valid one is returned.
    The columns are scaled to one length, since some are much longer than others.
    """
    import numpy as np

    matrix = np.array(rows)
    lengths = np.linalg.norm(matrix, axis=0)
    units, goal, width = matrix / lengths, np.ones(len(rows)), len(lengths)
    best, least = [0.0] * width, math.inf
    subsets = ([*places] for size in range(1, width + 1) for places in combinations(range(width), size))
    for places in subsets:
        found, _, rank, _ = np.linalg.lstsq(units[:, places], goal, rcond=_SINGULAR)
        error = float(np.sum((units[:, places] @ found - goal) ** 2))
        if rank == len(places) and found.min() >= 0 and error < least:
            solution = dict(zip(places, (found / lengths[places]).tolist(), strict=True))
            best, least = [solution.get(place, 0.0) for place in range(width)], error
    return best


# --- Results of all runs

EFFICIENT: Final = 0.8
_THROUGHPUT: Final = re.compile(r"per_sec(?:ond)?$|throughput$|/s(?:ec)?$")
_LAWS: Final = {"weak": ("Gustafson", "universal"), "strong": ("Amdahl", "universal")}


class Spread(NamedTuple):
    """The median of repetitions, with the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of these values, at least one."""
        return cls(statistics.median(values), min(values), max(values))

    def over(self, divisor: float) -> Spread:
        """Return the spread of the values divided by this."""
        return Spread(*(value / divisor for value in self))


class SizeResult(NamedTuple):
    """What was measured on so many nodes, by so many ``runs``."""

    nodes: int
    tasks: int | None
    gpus: int | None
    runs: int
    throughput: Spread
    speedup: Spread
    """Against the median of the smallest size; so is the efficiency."""
    efficiency: Spread
    communication: float | None
    thousand_steps: float | None
    """The cost of a thousand steps in GPU-hours, or in node-hours of a job without GPUs."""
    million: float
    """The cost of a million of what the metric counts."""


class StudyResult(NamedTuple):
    """A study with what was measured."""

    study: Study
    metric: str
    sizes: tuple[SizeResult, ...]
    fits: tuple[Fit, ...]
    left_out: tuple[str, ...]
    """Why sizes or repetitions were not measured, as sentences."""
    runs: tuple[RunMeasurement, ...] = ()
    """What each run has measured, by nodes and repetitions."""
    lost: tuple[str, ...] = ()
    """Metrics that cannot be read, ranks that are missing from a sum, and missing laws, as sentences."""

    @property
    def largest_efficient(self) -> int | None:
        """The largest number of nodes with an efficiency of at least `EFFICIENT`."""
        return max((size.nodes for size in self.sizes if size.efficiency.median >= EFFICIENT), default=None)

    @property
    def unit(self) -> str:
        """The unit of costs."""
        return "GPU-hours" if all(run.gpus_had for run in self.runs) else "node-hours"


def study_result(
    study: Study, reports: Iterable[tuple[Report, Member]], metric: str = "", ranks: Ranks = ""
) -> StudyResult:
    """Return what the runs of a study have measured; ``metric`` and ``ranks``: in place of the study's own.

    Raises:
        ConfigError: if runs have completed, and none has the metric, it is not clear which it is, or several
            ranks recorded it and no way to combine them is chosen.
    """
    every = [(report, member, *read_metrics(report.run)) for report, member in reports]
    found = [(report, member, one) for report, member, one, _ in every]
    lost = [f"{report.run.name}: {text}" for report, _, _, texts in every for text in texts]
    over = {report.run.name: one for report, _, one in found if report.status.state is JobState.COMPLETED}
    metric = metric or study.metric or _metric(over.values())
    if over and not any(metric in one for one in over.values()):
        raise ConfigError(_unknown(f"no run has recorded the metric {metric!r}", over.values()))
    ranks = ranks or study.ranks or _ranks(over, metric)
    runs = sorted(
        (measure(report, member, one, metric, ranks) for report, member, one in found),
        key=lambda one: (one.member.nodes, one.member.repetition),
    )
    laws, without_laws = _fits(study, runs)
    lost += [f"{one.run}: {_partial(one, metric)}" for one in runs if one.without]
    is_whole = any(was_submitted(report.run) for report, _, _ in found)
    left = _left_out(study, runs, metric, is_whole=is_whole)
    lost += without_laws
    return StudyResult(study, metric, (*_sizes(runs),), laws, (*left,), (*runs,), (*lost,))


def _fits(study: Study, runs: Iterable[RunMeasurement]) -> tuple[tuple[Fit, ...], list[str]]:
    """Return the laws of a study; none without numpy, and a sentence that says so."""
    points = [(one.member.nodes, one.throughput) for one in runs if one.throughput]
    try:
        return (*filter(None, (fit_law(law, points) for law in _LAWS[study.mode])),), []
    except ImportError:
        return (), ["no laws are fitted: numpy is not installed; run `pip install 'hpcdist[report]'`"]


def _partial(one: RunMeasurement, metric: str) -> str:
    """Return how many ranks a sum is of, and which are missing."""
    which = f"rank{'s' * (len(one.without) > 1)} {comma_list(map(str, one.without))}"
    return f"{metric} is the sum of {one.summed} of {one.ranks} ranks: {which} recorded none"


def _ranks(over: Mapping[str, Recorded], metric: str) -> Ranks:
    """Return ``"first"``, if no run has the metric of several ranks."""
    for run, recorded in over.items():
        if (count := len(recorded.get(metric, ()))) > 1:
            message = f"{count} ranks of {run} recorded {metric}, each its own or all that of the whole job"
            raise ConfigError(Problem(message, hint=_CHOOSE))
    return "first"


def _metric(read: Iterable[Recorded]) -> str:
    """Return the only metric with the name of a throughput."""
    found = [*read]
    names = dict.fromkeys(name for each in found for name in each if _THROUGHPUT.search(name))
    if len(names) != 1 and found:
        raise ConfigError(_unknown("which metric is the throughput is not clear from its name", found))
    return next(iter(names), "")


def _unknown(message: str, read: Iterable[Recorded]) -> Problem:
    names = [*dict.fromkeys(name for each in read for name in each)]
    listed = f"name one of {comma_list(names, most=10)} by --metric" if names else _RECORD
    return Problem(message, hint=listed)


_CHOOSE: Final = "--metric NAME:sum adds them up, --metric NAME:first takes that of the lowest rank"
_RECORD: Final = "record one with `hpcdist_tracking`, or find it in the output: `tracking: {metrics: ...}`"


def _sizes(found: Sequence[RunMeasurement]) -> Iterator[SizeResult]:
    by_nodes: dict[int, list[RunMeasurement]] = {}
    for one in found:
        if one.throughput is not None:
            by_nodes.setdefault(one.member.nodes, []).append(one)
    base: tuple[int, float] | None = None
    for nodes, runs in by_nodes.items():
        throughput = Spread.of([one.throughput for one in runs if one.throughput])
        base = base or (nodes, throughput.median)
        speedup = throughput.over(base[1])
        rate = (runs[0].gpus_had or nodes) / 3600
        step, share = median(one.step for one in runs), median(one.communication for one in runs)
        yield SizeResult(
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


def _left_out(study: Study, found: Iterable[RunMeasurement], metric: str, *, is_whole: bool) -> Iterator[str]:
    """Yield why a requested run has measured nothing; ``is_whole``: all were submitted."""
    there = {(one.member.nodes, one.member.repetition): one for one in found}
    for member in sorted(study.members, key=lambda member: (member.nodes, member.repetition)):
        one = there.get((member.nodes, member.repetition))
        what = f"{member.nodes} node{'s' * (member.nodes > 1)}, repetition {member.repetition}"
        if one is None:
            yield f"{what}: {'its run was removed' if is_whole else 'was not submitted'}"
        elif one.state != JobState.COMPLETED.value:
            yield f"{what}: {one.run} ({one.state.replace('_', ' ')})"
        elif not one.is_recorded:
            yield f"{what}: {one.run} has not recorded {metric}"
        elif one.throughput is None:
            rank = "a rank with " * ((one.summed or 0) > 1)
            yield f"{what}: {one.run} has {rank}no value of {metric} from {LEAST:g} to {MOST:g}"

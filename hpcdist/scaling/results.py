"""What a study has measured: throughput, speed-up and efficiency of each size, their costs, and the laws."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, Problem, comma_list
from hpcdist.runs.states import Report
from hpcdist.scaling import fits
from hpcdist.scaling.fits import Fit
from hpcdist.scaling.measured import LEAST, MOST, Measured, Recorded, measured, median, read
from hpcdist.scaling.study import Member, Ranks, Study, was_submitted
from hpcdist.schedulers.job import JobState

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
    """A study with what was measured; ``left_out``: why sizes or repetitions are not, as sentences.

    ``runs``: what each run has measured, in the order of nodes and repetitions. ``lost``: what of
    the metrics could not be read, and which ranks are missing from a sum, as sentences.
    """

    study: Study
    metric: str
    sizes: tuple[Size, ...]
    fits: tuple[Fit, ...]
    left_out: tuple[str, ...]
    runs: tuple[Measured, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def largest_efficient(self) -> int | None:
        """The largest number of nodes whose efficiency is at least `EFFICIENT`."""
        return max((size.nodes for size in self.sizes if size.efficiency.median >= EFFICIENT), default=None)

    @property
    def unit(self) -> str:
        """The unit of costs."""
        return "GPU-hours" if all(run.gpus_had for run in self.runs) else "node-hours"


def result(
    study: Study, reports: Iterable[tuple[Report, Member]], metric: str = "", ranks: Ranks = ""
) -> Result:
    """Return what the runs of a study have measured; ``metric`` and ``ranks``: in place of the study's own.

    Raises:
        ConfigError: if runs have completed, and none has the metric, it is not clear which it is, or several
            ranks recorded it and it is not chosen what they come to.
    """
    every = [(report, member, *read(report.run)) for report, member in reports]
    found = [(report, member, one) for report, member, one, _ in every]
    lost = [f"{report.run.name}: {text}" for report, _, _, texts in every for text in texts]
    over = {report.run.name: one for report, _, one in found if report.status.state is JobState.COMPLETED}
    metric = metric or study.metric or _metric(over.values())
    if over and not any(metric in one for one in over.values()):
        raise ConfigError(_unknown(f"no run has recorded the metric {metric!r}", over.values()))
    ranks = ranks or study.ranks or _ranks(over, metric)
    runs = sorted(
        (measured(report, member, one, metric, ranks) for report, member, one in found),
        key=lambda one: (one.member.nodes, one.member.repetition),
    )
    points = [(one.member.nodes, one.throughput) for one in runs if one.throughput]
    laws = (fits.fit(law, points) for law in _LAWS[study.mode])
    lost += [f"{one.run}: {_partial(one, metric)}" for one in runs if one.without]
    is_whole = any(was_submitted(report.run) for report, _, _ in found)
    left = _left_out(study, runs, metric, is_whole=is_whole)
    return Result(study, metric, (*_sizes(runs),), (*filter(None, laws),), (*left,), (*runs,), (*lost,))


def _partial(one: Measured, metric: str) -> str:
    """Return how many ranks a sum is of, and which are missing."""
    which = f"rank{'s' * (len(one.without) > 1)} {comma_list(map(str, one.without))}"
    return f"{metric} is the sum of {one.summed} of {one.ranks} ranks: {which} recorded none"


def _ranks(over: Mapping[str, Recorded], metric: str) -> Ranks:
    """Return that the lowest rank counts, if no other has the metric.

    Raises:
        ConfigError: if several have: the values may be of each rank or of the whole job.
    """
    for run, recorded in over.items():
        if (count := len(recorded.get(metric, ()))) > 1:
            message = f"{count} ranks of {run} recorded {metric}, each its own or all that of the whole job"
            raise ConfigError(Problem(message, hint=_CHOOSE))
    return "first"


def _metric(read: Iterable[Recorded]) -> str:
    """Return the only metric whose name is that of a throughput.

    Raises:
        ConfigError: if there is none or several, and a run has completed.
    """
    found = [*read]
    names = dict.fromkeys(name for each in found for name in each if _THROUGHPUT.search(name))
    if len(names) != 1 and found:
        raise ConfigError(_unknown("which metric is the throughput is not clear from its name", found))
    return next(iter(names), "")


def _unknown(message: str, read: Iterable[Recorded]) -> Problem:
    names = [*dict.fromkeys(name for each in read for name in each)]
    listed = f"name one of {comma_list(names, most=10)} by --metric" if names else _RECORD
    return Problem(message, hint=listed)


_CHOOSE: Final = (
    "`hpcdist scale --report RUN --ranks sum` adds them up, `--ranks first` takes that of the lowest rank"
)
_RECORD: Final = "record one with `hpcdist_tracking`, or find it in the output: `tracking: {metrics: ...}`"


def _sizes(found: Sequence[Measured]) -> Iterator[Size]:
    by_nodes: dict[int, list[Measured]] = {}
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


def _left_out(study: Study, found: Iterable[Measured], metric: str, *, is_whole: bool) -> Iterator[str]:
    """Yield why a run that was asked for has measured nothing; ``is_whole``: all were submitted."""
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


# --- A study as text: a row for each size, and lines with the laws, for a terminal and for a page


def title(result: Result) -> str:
    """Return what was studied: ``train: weak scaling, images_per_second``."""
    return f"{result.study.experiment}: {result.study.mode} scaling, {result.metric or 'no metric'}"


def heads(result: Result) -> tuple[str, ...]:
    """Return the names of the columns."""
    names = ("nodes", "tasks", "GPUs", "runs", result.metric, "speed-up", "efficiency")
    return (*names, "communication", f"{result.unit}/1,000 steps", f"{result.unit}/million")


def row(size: Size) -> tuple[str, ...]:
    """Return the cells of a size."""
    return (
        str(size.nodes),
        _number(size.tasks),
        _number(size.gpus),
        str(size.runs),
        _spread(size.throughput, ".4g"),
        _spread(size.speedup, ".2f"),
        _spread(size.efficiency, ".2f"),
        "-" if size.communication is None else f"{size.communication:.0%}",
        _number(size.thousand_steps),
        _number(size.million),
    )


def lines(result: Result) -> Iterator[str]:
    """Yield a line for each law, and one for the largest efficient size."""
    yield from map(_law, result.fits)
    most = result.largest_efficient
    nodes = f"{most} node{'s' * ((most or 0) > 1)}"
    yield f"largest size with an efficiency of at least {EFFICIENT:g}: {nodes}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _spread(spread: Spread, form: str) -> str:
    """Return the median, and the lowest and highest where they differ: ``0.91 (0.89-0.93)``."""
    text = format(spread.median, form)
    if spread.low == spread.high:
        return text
    return f"{text} ({format(spread.low, form)}-{format(spread.high, form)})"


def _law(fit: Fit) -> str:
    parameters = ", ".join(f"{name} {value:.3g}" for name, value in fit.parameters.items())
    peak = f", most throughput at {fit.peak:.0f} nodes" if fit.peak else ""
    exact = " (as many sizes as parameters: they say nothing)" if fit.is_exact else ""
    return f"{fit.law}: {parameters}, one node {fit.one_node:.4g}{peak}; residuals {_residuals(fit)}{exact}"


def _residuals(fit: Fit) -> str:
    """Return the residual of each size that is farthest from the law."""
    worst: dict[int, float] = {}
    for nodes, residual in fit.residuals:
        worst[nodes] = max(residual, worst.get(nodes, 0.0), key=abs)
    return ", ".join(f"{residual:+.1%} ({nodes})" for nodes, residual in sorted(worst.items()))

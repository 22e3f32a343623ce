"""The plots of a report: for each metric a curve per run, and searches."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hpcdist.runs import attempt_files
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState, split_id
from hpcdist.tracking import report_data, series, trial_params
from hpcdist.tracking.comparison import Tracked
from hpcdist.tracking.series import Points

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# --- The metrics of runs: a plot per metric, with a curve per run; long ones keep their extremes


class CurveSummary(NamedTuple):
    """The summary of a series; ``low`` and ``high`` are finite, each with its step."""

    item: int
    label: str
    values: int
    last: float
    step: float
    low: tuple[float, float] | None
    high: tuple[float, float] | None


class Curve(NamedTuple):
    """A metric of a run or element: its summary, and as many of its points as a plot may have."""

    metric: str
    row: CurveSummary
    points: Points
    began: float

    @classmethod
    def of(cls, metric: str, name: tuple[int, str], points: Points, began: float) -> Curve:
        """Return the series of these points; ``name`` is the number and the name of the item."""
        places = series.extremes(points.values, report_data.POINTS_OF_A_SERIES)
        thin = Points(*(array("d", (column[place] for place in places)) for column in points))
        return cls(metric, _row(name, points), thin, began)


class Plot(NamedTuple):
    """A metric: a row and a trace for each of its series; ``traces`` is data for JSON."""

    name: str
    rows: Sequence[CurveSummary]
    traces: Sequence[Mapping[str, Any]]


def plots(found: Iterable[Curve]) -> report_data.Share[Plot]:
    """Return a plot for each metric by name; ``left_out`` counts series."""
    there = sorted(found, key=lambda one: (one.metric, one.row.item))
    names = [*dict.fromkeys(one.metric for one in there)][: report_data.MOST_PLOTS]
    shown = [one for one in there if one.metric <= names[-1]][: report_data.MOST_SERIES]
    most = report_data.most_points(len(shown))
    groups = ([*group] for _, group in groupby(shown, key=lambda one: one.metric))
    return report_data.Share([_plot(most, group) for group in groups], len(there) - len(shown))


def _plot(most: int, group: Sequence[Curve]) -> Plot:
    return Plot(group[0].metric, [one.row for one in group], [_trace(one, most) for one in group])


def _row(name: tuple[int, str], points: Points) -> CurveSummary:
    item, label = name
    steps, values, _ = points
    summary = series.summary(points)
    low, high = (
        None if end is None else (end, steps[values.index(end)]) for end in (summary.low, summary.high)
    )
    return CurveSummary(item, label, len(values), values[-1], steps[-1], low, high)


def _trace(one: Curve, most: int) -> dict[str, Any]:
    places = series.extremes(one.points.values, most)
    steps, values, times = ([column[place] for place in places] for column in one.points)
    is_timed = any(time > 0 for time in times)
    return {
        "item": one.row.item,
        "label": report_data.visible(one.row.label),
        "x": [*_numbers(steps, 12)],
        "y": [*_numbers(values, 7)],
        "t": [*_numbers((time - one.began for time in times), 7)] if is_timed else None,
    }


def _numbers(values: Iterable[float], digits: int) -> Iterator[float | int | None]:
    """Yield numbers for JSON with ``digits`` digits; None for values that are not finite."""
    for value in values:
        if not math.isfinite(value):
            yield None
            continue
        short = float(f"{value:.{digits}g}")
        yield int(short) if short.is_integer() and abs(short) < 1e15 else short  # noqa: PLR2004 - exact in JavaScript


# --- How much each param of a search matters for its metric

_FEWEST: Final = 4
"""The least trials for an estimate."""

_GROUPS: Final = 4
"""The number of groups of equal size for a param's values, if it has more than `_MOST_GROUPS`."""

_MOST_GROUPS: Final = 8
_LARGEST: Final = 1e300

_FANOVA: Final = (
    "fANOVA by Optuna: the share of the metric's variance that a forest of regression trees explains by it"
)
_EPSILON: Final = (
    "epsilon squared: the share of the metric's variance that lies between groups of trials with the same "
    "or near values of it, as in an analysis of variance with one factor"
)


class Importance(NamedTuple):
    """The ``shares`` of the params, from 0 to 1, the largest first, and the ``measure`` as a sentence."""

    measure: str
    shares: Mapping[str, float]


def importance(params: Mapping[str, Sequence[Any]], values: Sequence[float]) -> Importance | None:
    """Return how much each param matters for these values of the metric, one for each trial.

    It is Optuna's fANOVA (Hutter, Hoos and Leyton-Brown, ICML 2014) if it and scikit-learn are
    installed, else epsilon squared (Kelley, PNAS 1935), which ignores interactions. None if there are too few
    trials, or nothing differs.
    """
    columns = {name: [*_comparable(column)] for name, column in params.items()}
    columns = {name: column for name, column in columns.items() if len({*column}) > 1}
    if len(values) < _FEWEST or len({*values}) == 1 or not columns:
        return None
    try:
        found, measure = _fanova(columns, values), _FANOVA
    except ImportError:
        found = {name: epsilon_squared(column, values) for name, column in columns.items()}
        measure = _EPSILON
    return Importance(measure, dict(sorted(found.items(), key=lambda item: -item[1])))


def has_numbers(column: Sequence[Any]) -> bool:
    """Whether all of these values are finite numbers."""
    return all(type(value) in (int, float) and abs(value) < _LARGEST for value in column)


def _comparable(column: Sequence[Any]) -> Iterator[Any]:
    """Yield the numbers as floats, or all values as texts."""
    yield from map(float, column) if has_numbers(column) else map(repr, column)


def epsilon_squared(column: Sequence[Any], values: Sequence[float]) -> float:
    """Return the share of the variance of the values between the groups, corrected for their number."""
    groups = [*_groups(column, values)]
    count, mean = len(values), statistics.fmean(values)
    whole = math.fsum((value - mean) ** 2 for value in values)
    within = math.fsum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    if count <= len(groups) or not whole:
        return 0.0
    return max(0.0, 1 - (within / (count - len(groups))) / (whole / (count - 1)))


def _groups(column: Sequence[Any], values: Sequence[float]) -> Iterator[list[float]]:
    pairs = sorted(zip(column, values, strict=True))
    if len({*column}) <= _MOST_GROUPS or isinstance(column[0], str):
        yield from ([value for _, value in group] for _, group in groupby(pairs, key=lambda pair: pair[0]))
        return
    ends = [round(place * len(pairs) / _GROUPS) for place in range(_GROUPS + 1)]
    yield from ([value for _, value in pairs[first:end]] for first, end in pairwise(ends))


def _fanova(columns: Mapping[str, Sequence[Any]], values: Sequence[float]) -> dict[str, float]:
    import optuna
    import sklearn  # noqa: F401 - Optuna needs it for this

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = {name: sorted({*column}) for name, column in columns.items() if isinstance(column[0], str)}
    sizes = {name: _distribution(column, names.get(name)) for name, column in columns.items()}
    study = optuna.create_study()
    for number, value in enumerate(values):
        places = {
            name: names[name].index(column[number]) if name in names else column[number]
            for name, column in columns.items()
        }
        study.add_trial(optuna.trial.create_trial(params=places, distributions=sizes, value=value))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


def _distribution(column: Sequence[Any], names: Sequence[str] | None) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if names is not None:
        return CategoricalDistribution(range(len(names)))
    low, high = min(column), max(column)
    return FloatDistribution(low, high, log=spans_magnitudes(column))


def spans_magnitudes(column: Sequence[float]) -> bool:
    """Whether numbers need a logarithmic axis."""
    return min(column) > 0 and max(column) / min(column) > 50  # noqa: PLR2004


# --- A search as the report shows it

_MOST_PARAMS: Final = 12
_MOST_WEIGHED: Final = 250
"""The most trials for importance; twice as many change it by 0.01, in twice the time."""

_RUNNING: Final = JobState.RUNNING.value

Cut = Callable[[object], str]


class Column(NamedTuple):
    """A param with its value in each trial, None where one lacks it; ``is_log``: on a logarithmic axis."""

    name: str
    values: Sequence[Any]
    is_numeric: bool
    is_log: bool


class TrialSpan(NamedTuple):
    """An attempt of a trial, in seconds since the first one began, and the GPUs that it had."""

    trial: int
    state: str
    begin: float
    end: float
    gpus: float


class SearchView(NamedTuple):
    """The trials that are shown, and results of all trials."""

    name: str
    metric: str
    """The name of the metric; empty if the search has none."""
    is_maximized: bool
    numbers: report_data.Share[int]
    """The trials."""
    reached: Sequence[float | None]
    """The last value of the metric in each trial, None without one."""
    best: str
    """The name and the value of the best trial."""
    columns: report_data.Share[Column]
    """The params that differ."""
    importance: Importance | None
    bars: report_data.Share[TrialSpan]
    has_gpus: bool
    gpus: Sequence[tuple[float, float]]
    """The number of GPUs in use from each time on; without GPUs, of running trials."""

    def data(self, cut: Cut) -> dict[str, Any]:
        """Return the search for JSON; ``cut`` makes a text safe to show."""
        return {
            "metric": cut(self.metric),
            "maximized": self.is_maximized,
            "trials": self.numbers.items,
            "reached": self.reached,
            "columns": [
                {
                    "name": cut(column.name),
                    "values": [*_values(column, cut)],
                    "numeric": column.is_numeric,
                    "log": column.is_log,
                }
                for column in self.columns.items
            ],
            "bars": [
                [bar.trial, cut(bar.state), _short(bar.begin), _short(bar.end)] for bar in self.bars.items
            ],
            "use": {
                "name": "GPUs in use" if self.has_gpus else "trials that run",
                "t": [_short(time) for time, _ in self.gpus],
                "n": [_short(count) for _, count in self.gpus],
            },
        }


def search(
    run: Run, attempts: Sequence[Attempt], tracked: Iterable[Tracked], now: float, most: int
) -> SearchView | None:
    """Return the search of a run with these attempts, with at most so many trials; None for other runs."""
    stored, known = run.directory.plan(), trial_params.of(run)
    if not known:
        return None
    items = {item.name: item for item in tracked}
    numbers = [int(number) for number in known]
    metric = (stored.order or "").removeprefix("-")
    there = [items.get(f"{run.name}/{number}") for number in numbers]
    reached = [_finite(item.metrics.get(metric)) if item else None for item in there]
    columns = [*_columns([*known.values()])]
    if stored.workers:
        attempts = attempt_files.trial_attempts(run.directory, stored, attempts, now)
    bars = [*_spans(attempts, now)]
    has_gpus = any(bar.gpus for bar in bars)
    is_maximized = (stored.order or "").startswith("-")
    shown = [column._replace(values=column.values[:most]) for column in columns]
    return SearchView(
        name=run.name,
        metric=metric,
        is_maximized=is_maximized,
        numbers=report_data.at_most(numbers, most),
        reached=reached[:most],
        best=_best(numbers, reached, is_maximized=is_maximized),
        columns=report_data.at_most(shown, _MOST_PARAMS),
        importance=_importance(columns[:_MOST_PARAMS], reached, min(most, _MOST_WEIGHED)),
        bars=report_data.at_most(bars, 2 * most),
        has_gpus=has_gpus,
        gpus=_in_use(bars, 4 * most, has_gpus=has_gpus),
    )


def _columns(params: Sequence[Mapping[str, Any]]) -> Iterator[Column]:
    """Yield the params that are not the same in all trials."""
    for name in trial_params.names(params):
        values = [each.get(name) for each in params]
        if len({repr(value) for value in values}) > 1:
            yield _column(name, values)


def _in_use(bars: Sequence[TrialSpan], most: int, *, has_gpus: bool) -> list[tuple[float, float]]:
    """Return how many GPUs, or trials, were in use from each of at most ``most`` times on."""
    changes: dict[float, float] = {}
    for bar in bars:
        size = bar.gpus if has_gpus else 1.0
        changes[bar.begin] = changes.get(bar.begin, 0.0) + size
        changes[bar.end] = changes.get(bar.end, 0.0) - size
    times = sorted(changes)
    counts = array("d", accumulate(changes[time] for time in times))
    return [(times[place], counts[place]) for place in series.extremes(counts, max(most, 5))]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _best(numbers: Sequence[int], reached: Sequence[float | None], *, is_maximized: bool) -> str:
    there = [(value, number) for value, number in zip(reached, numbers, strict=True) if value is not None]
    if not there:
        return ""
    value, number = max(there, key=lambda one: one[0]) if is_maximized else min(there)
    return f"trial {number}, {value:.6g}"


def _column(name: str, values: Sequence[Any]) -> Column:
    there = [value for value in values if value is not None]
    is_numeric = has_numbers(there)
    return Column(name, values, is_numeric, is_numeric and spans_magnitudes(there))


def _importance(columns: Iterable[Column], reached: Sequence[float | None], most: int) -> Importance | None:
    """Return the importance by at most so many trials, which are spread over all."""
    places = [place for place, value in enumerate(reached) if value is not None]
    places = [places[at * len(places) // most] for at in range(most)] if len(places) > most else places
    whole = [column for column in columns if all(column.values[place] is not None for place in places)]
    params = {column.name: [column.values[place] for place in places] for column in whole}
    return importance(params, [reached[place] or 0.0 for place in places])


def _spans(attempts: Iterable[Attempt], now: float) -> Iterator[TrialSpan]:
    found = [(one, now if one.state == _RUNNING else one.ended) for one in attempts if split_id(one.job)[1]]
    began = min((one.started for one, _ in found if one.started is not None), default=0.0)
    for one, end in found:
        if one.started is not None and end is not None:
            number = int(split_id(one.job)[1])
            last = max(end, one.started) - began
            yield TrialSpan(number, one.state, one.started - began, last, _gpus(one, end - one.started))


def _gpus(attempt: Attempt, elapsed: float) -> float:
    return attempt.gpu_seconds / elapsed if attempt.gpu_seconds and elapsed > 0 else 0.0


def _values(column: Column, cut: Cut) -> Iterator[float | str | None]:
    for value in column.values:
        yield value if value is None or column.is_numeric else cut(value)


def _short(value: float) -> float | int:
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded

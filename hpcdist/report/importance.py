"""How much each param of a search matters for its metric."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_FEWEST: Final = 4
"""Trials below which nothing is said."""

_GROUPS: Final = 4
"""Groups of equal size in which a param has its values, if it has more than `_MOST_GROUPS`."""

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

    It is Optuna's fANOVA (Hutter, Hoos and Leyton-Brown, ICML 2014) where that and scikit-learn are
    installed, else epsilon squared (Kelley, PNAS 1935), for which interactions of params do not count. None
    where the trials are too few, or nothing differs.
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


def is_numeric(column: Sequence[Any]) -> bool:
    """Whether all of these values are finite numbers."""
    return all(type(value) in (int, float) and abs(value) < _LARGEST for value in column)


def _comparable(column: Sequence[Any]) -> Iterator[Any]:
    """Yield the numbers as floats, or all values as texts."""
    yield from map(float, column) if is_numeric(column) else map(repr, column)


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
    return FloatDistribution(low, high, log=is_wide(column))


def is_wide(column: Sequence[float]) -> bool:
    """Whether numbers are to be shown by their logarithms."""
    return min(column) > 0 and max(column) / min(column) > 50  # noqa: PLR2004

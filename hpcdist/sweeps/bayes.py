"""Bayesian optimization by Optuna: which trials promise most, after what earlier ones have reached.

Nothing is kept between two calls: all earlier trials are told to a new study, whose random choices depend on
their number alone. So a call that is repeated returns the same trials.

Each param is a number from 0 to 1 of its distribution's quantiles, or the place of a value in its list.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

from hpcdist.errors import ConfigError, Problem
from hpcdist.experiment.search import spaces
from hpcdist.experiment.search.adaptive import Next, Reached
from hpcdist.experiment.search.model import Bayes, Search
from hpcdist.experiment.search.spaces import Choices, Distribution, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_NEEDS: Final = "Bayesian optimization needs the package optuna"
_HINT: Final = "install it with `pip install 'hpcdist[sweeps]'`"
_LOWEST: Final = 1e-9
"""The lowest quantile, and how far the highest is below 1: at 0 and 1 normal numbers are infinite."""

_MOST_PLACES: Final = 100_000


class _At(Random):
    """Random numbers that are all at one quantile of their distributions."""

    def __init__(self, quantile: float) -> None:
        super().__init__()
        self._quantile = min(max(quantile, _LOWEST), 1 - _LOWEST)

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._quantile

    def normalvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        return NormalDist(mu, sigma).inv_cdf(self._quantile) if sigma else mu


def following(search: Search, algorithm: Bayes, reached: Sequence[Reached], count: int) -> list[Next]:
    """Return the next trials, ``count`` or as many as are left; none if the search is over.

    Raises:
        ConfigError: if Optuna is not installed.
    """
    left = algorithm.n_initial_trials + algorithm.n_iterations - len(reached)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Optuna calls experimental
            return _asked(search, algorithm, reached, min(count, left)) if left > 0 else []
    except ImportError as error:
        raise ConfigError(Problem(f"{_NEEDS}: {error}", hint=_HINT)) from None


def _asked(search: Search, algorithm: Bayes, reached: Sequence[Reached], count: int) -> list[Next]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    known = {name: spaces.made(space) for name, space in search.matrix.items()}
    sizes = {name: _distribution(space) for name, space in known.items()}
    sampler = optuna.samplers.TPESampler(
        seed=(search.seed + len(reached)) % 2**32,
        n_startup_trials=min(algorithm.n_initial_trials, len(reached)),
        multivariate=True,
        constant_liar=True,
    )
    study = optuna.create_study(direction=algorithm.metric.optimization, sampler=sampler)
    for one in reached:
        places = {name: _place(space, one.params.get(name)) for name, space in known.items()}
        is_bad = one.value is None or math.isnan(one.value)
        state = optuna.trial.TrialState.FAIL if is_bad else optuna.trial.TrialState.COMPLETE
        value = None if is_bad else one.value
        study.add_trial(
            optuna.trial.create_trial(state=state, params=places, distributions=sizes, value=value)
        )
    asked = [study.ask(sizes).params for _ in range(count)]
    return [Next({name: _value(space, one[name]) for name, space in known.items()}) for one in asked]


def _distribution(space: Choices | Distribution) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(space, Distribution) or space.size > _MOST_PLACES:
        return FloatDistribution(0.0, 1.0)
    if _is_ordered(space):
        return IntDistribution(0, space.size - 1)
    return CategoricalDistribution(range(space.size))


def _is_ordered(space: Choices) -> bool:
    values = [space.at(place) for place in range(space.size)]
    return all(type(value) in (int, float) for value in values) and values == sorted(values)


def _value(space: Choices | Distribution, place: float) -> Value:
    if isinstance(space, Distribution):
        return space.draw(_At(place))
    return space.at(min(int(place * space.size), space.size - 1) if space.size > _MOST_PLACES else int(place))


def _place(space: Choices | Distribution, value: Any) -> float:
    """Return the place of a value, found by halving where it is a quantile; draws rise with it."""
    if isinstance(space, Choices) and space.size <= _MOST_PLACES:
        return next((place for place in range(space.size) if space.at(place) == value), 0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _value(space, middle) < value else (low, middle)
    return high

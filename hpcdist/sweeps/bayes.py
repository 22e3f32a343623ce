"""Bayesian optimization by Optuna: which trials promise most, after what earlier ones have reached.

Nothing is kept between two calls: all earlier trials are told to a new study, whose random choices depend on
their number alone. So a call that is repeated returns the same trials.

Each param is a number from 0 to 1 of its distribution's quantiles, or the place of a value in its list.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

from hpcdist.errors import ConfigError, Problem
from hpcdist.experiment.search import spaces
from hpcdist.experiment.search.adaptive import Next, Reached
from hpcdist.experiment.search.model import Bayes, Search
from hpcdist.experiment.search.spaces import Choices, Distribution, Value
from hpcdist.experiment.search.trials import MOST, Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_NEEDS: Final = "Bayesian optimization needs the package optuna"
_HINT: Final = "install it with `pip install 'hpcdist[sweeps]'`"
_LOWEST: Final = 1e-9
"""The lowest quantile, and how far the highest is below 1: at 0 and 1 normal numbers are infinite."""

_MOST_PLACES: Final = 100_000

_TRIES: Final = 20
"""How often Optuna is asked for a trial that was not there before."""

_REPETITIONS: Final = 10_000


Spaces = Mapping[str, Choices | Distribution]
"""The values that each param may have."""


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

    None of them was there before: a search whose values are all tried is over.

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
    """Return so many trials that were not there before, or as many as there are."""
    known = {name: spaces.made(space) for name, space in search.matrix.items()}
    tried = {_key(one.params, known) for one in reached}
    random = Random(search.seed + len(reached))  # noqa: S311 - trials are no secret
    ask, found = _asking(search, algorithm, reached, known), list[Next]()
    for _ in range(count):
        proposed = itertools.chain((ask() for _ in range(_TRIES)), _others(known, random))
        new = next((trial for trial in proposed if _key(trial, known) not in tried), None)
        if new is None:
            break
        tried.add(_key(new, known))
        found.append(Next(new))
    return found


def _asking(
    search: Search, algorithm: Bayes, reached: Sequence[Reached], known: Spaces
) -> Callable[[], Trial]:
    """Return what asks Optuna for one more trial, after it was told the earlier ones."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
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

    def ask() -> Trial:
        places = study.ask(sizes).params
        return {name: _value(space, places[name]) for name, space in known.items()}

    return ask


def _others(known: Spaces, random: Random) -> Iterator[Trial]:
    """Yield random trials: of listed values all in the end, else so many that others are improbable."""
    number = math.prod(space.size if isinstance(space, Choices) else MOST + 1 for space in known.values())
    if number <= MOST:
        for index in random.sample(range(number), number):
            yield _at(known, index)
        return
    for _ in range(_REPETITIONS):
        yield {name: _value(space, _drawn(space, random)) for name, space in known.items()}


def _at(known: Spaces, index: int) -> Trial:
    found = {}
    for name, space in known.items():
        if isinstance(space, Choices):
            index, place = divmod(index, space.size)
            found[name] = space.at(place)
    return found


def _drawn(space: Choices | Distribution, random: Random) -> float:
    """Return a random place of a space."""
    if isinstance(space, Choices) and space.size <= _MOST_PLACES:
        return random.randrange(space.size)
    return random.random()


def _key(params: Trial, known: Spaces) -> tuple[str, ...]:
    """Return what is equal in equal trials, whether they were read from a file or made."""
    return tuple(str(_plain(params.get(name))) for name in known)


def _plain(value: Value) -> Value:
    return int(value) if isinstance(value, float) and value.is_integer() else value


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

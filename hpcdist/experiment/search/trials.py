"""The trials of a search: a grid, random ones, a list, or those that depend on no earlier trial."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from hpcdist.experiment.search import adaptive, spaces
from hpcdist.experiment.search.model import Search
from hpcdist.experiment.search.spaces import Choices, Distribution, Value

Trial = Mapping[str, Value]
"""The params of one trial."""

MOST: Final = 100_000
"""The most trials of one search."""

_FEWER: Final = {"hyperband": "lower `max_iterations`", "bo": "lower `n_initial_trials`"}

_REPETITIONS: Final = 10_000
"""How many trials in a row that were there before show that there are no others."""


def trials(search: Search) -> Sequence[Trial]:
    """Return the trials of a search, the same ones each time and none of a random search twice.

    If all its values are listed, a random search may have fewer trials than it asks for.

    Raises:
        ValueError: if a space has no values, or the search has no trials, or too many.
    """
    if search.mapping:
        return search.mapping
    known = {name: spaces.made(space) for name, space in search.matrix.items()}
    discrete = {name: space for name, space in known.items() if isinstance(space, Choices)}
    if search.hyperband:
        sampled = _random(search, known, adaptive.first_size(search.hyperband), "hyperband")
        return adaptive.first(search.hyperband, sampled)
    if search.bo:
        return _random(search, known, search.bo.n_initial_trials, "bo")
    if search.random_search is None:
        return _grid(search, discrete)
    wanted = search.random_search.n_experiments
    if wanted is None:
        raise ValueError(
            "a random search needs the number of its trials; write `random_search: {n_experiments: 20}`"
        )
    return _random(search, known, wanted, "random_search")


def _random(
    search: Search, known: Mapping[str, Choices | Distribution], wanted: int, algorithm: str
) -> Sequence[Trial]:
    discrete = {name: space for name, space in known.items() if isinstance(space, Choices)}
    if len(discrete) == len(known):
        wanted = min(wanted, _number(discrete))
    found = sampled(search, _checked(wanted, algorithm))
    if len(found) < wanted:
        hint = (
            "set `n_experiments` to that" if algorithm == "random_search" else "give its params more values"
        )
        raise ValueError(f"it has {len(found)} different trials, not {wanted}; {hint}")
    return found


def _number(choices: Mapping[str, Choices]) -> int:
    return math.prod(one.size for one in choices.values())


def _grid(search: Search, discrete: Mapping[str, Choices]) -> Sequence[Trial]:
    """Return all combinations, or the first ones; the last param changes fastest."""
    for name, space in search.matrix.items():
        if name not in discrete or spaces.weights(space):
            raise ValueError(f"{name!r} is a distribution, which a grid cannot list; write `random_search`")
    wanted = search.grid_search.n_experiments if search.grid_search else None
    number = _number(discrete)
    count = _checked(number if wanted is None else min(wanted, number), "grid_search")
    return [_at(discrete, index) for index in range(count)]


def _checked(count: int, algorithm: str) -> int:
    if count > MOST:
        hint = _FEWER.get(algorithm, f"write `{algorithm}: {{n_experiments: {MOST}}}` or fewer")
        raise ValueError(f"it has {count} trials, and {MOST} are the most; {hint}")
    return count


def _at(choices: Mapping[str, Choices], index: int) -> Trial:
    """Return one combination of values by its index."""
    found = {}
    for name, one in reversed([*choices.items()]):
        index, place = divmod(index, one.size)
        found[name] = one.at(place)
    return {name: found[name] for name in choices}


def sampled(search: Search, count: int) -> Sequence[Trial]:
    """Return random trials, none twice: ``count``, or fewer where the search does not have so many."""
    known = {name: spaces.made(space) for name, space in search.matrix.items()}
    random = Random(search.seed)  # noqa: S311 - trials are no secret
    weights = {name: spaces.weights(space) for name, space in search.matrix.items()}
    discrete = {name: space for name, space in known.items() if isinstance(space, Choices)}
    if len(discrete) == len(known) and _number(discrete) <= MOST:
        return [_at(discrete, index) for index in _combinations(random, discrete, weights)[:count]]
    drawn = ({name: _drawn(random, known[name], weights[name]) for name in known} for _ in itertools.count())
    return list(itertools.islice(_distinct(drawn), count))


def _combinations(
    random: Random, choices: Mapping[str, Choices], weights: Mapping[str, Sequence[float] | None]
) -> Sequence[int]:
    """Return the indices of all combinations in a random order, the probable ones earlier.

    Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    """
    every = itertools.product(*(weights[name] or (1.0,) * one.size for name, one in choices.items()))
    keys = [random.expovariate(1) / max(math.prod(one), 1e-300) for one in every]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _drawn(random: Random, space: Choices | Distribution, weights: Sequence[float] | None) -> Value:
    if isinstance(space, Distribution):
        return space.draw(random)
    if weights:
        return space.at(random.choices(range(space.size), weights)[0])
    return space.at(random.randrange(space.size))


def _distinct(drawn: Iterator[Trial]) -> Iterator[Trial]:
    """Yield each trial once; end when only repetitions come."""
    seen: set[str] = set()
    repeated = 0
    for trial in drawn:
        key = repr(trial)
        repeated = repeated + 1 if key in seen else 0
        if repeated > _REPETITIONS:
            return
        if not repeated:
            seen.add(key)
            yield trial

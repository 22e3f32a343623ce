"""The trials of a search: a grid, random ones, a list, and the generations of an adaptive search.

All brackets of hyperband run side by side: the first rounds of all of them are one generation of trials, and
so are the second rounds. A trial continues as a new one, with the same params and more of the resource.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from hpcdist.experiment.search import (
    Choices,
    Distribution,
    Hyperband,
    Search,
    Value,
    values_of,
    weights_of,
)

# --- The trials of a search

Trial = Mapping[str, Value]
"""The params of one trial."""

Spaces = Mapping[str, Choices | Distribution]
"""The values that each param may have."""

MOST_TRIALS: Final = 100_000
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
    spaces = spaces_of(search)
    if search.hyperband:
        found = _random(search, spaces, first_size(search.hyperband), "hyperband")
        return first_generation(search.hyperband, found)
    if search.bo:
        return _random(search, spaces, search.bo.n_initial_trials, "bo")
    if search.random_search is None:
        return _grid(search, spaces)
    wanted = search.random_search.n_experiments
    if wanted is None:
        raise ValueError(
            "a random search needs the number of its trials; write `random_search: {n_experiments: 20}`"
        )
    return _random(search, spaces, wanted, "random_search")


def spaces_of(search: Search) -> Spaces:
    """Return the values that each param may have.

    Raises:
        ValueError: if a space has none.
    """
    return {name: values_of(space) for name, space in search.matrix.items()}


def _random(search: Search, spaces: Spaces, wanted: int, algorithm: str) -> Sequence[Trial]:
    if (discrete := _discrete(spaces)) is not None:
        wanted = min(wanted, _number(discrete))
    found = sampled(search, _checked(wanted, algorithm))
    if len(found) < wanted:
        hint = (
            "set `n_experiments` to that" if algorithm == "random_search" else "give its params more values"
        )
        raise ValueError(f"it has {len(found)} different trials, not {wanted}; {hint}")
    return found


def _discrete(spaces: Spaces) -> Mapping[str, Choices] | None:
    """Return the spaces if all values are listed, else None."""
    found = {name: space for name, space in spaces.items() if isinstance(space, Choices)}
    return found if len(found) == len(spaces) else None


def _number(choices: Mapping[str, Choices]) -> int:
    return math.prod(one.size for one in choices.values())


def _grid(search: Search, spaces: Spaces) -> Sequence[Trial]:
    """Return all combinations, or the first ones; the last param changes fastest."""
    discrete: dict[str, Choices] = {}
    for name, space in spaces.items():
        if isinstance(space, Distribution) or weights_of(search.matrix[name]):
            raise ValueError(f"{name!r} is a distribution, which a grid cannot list; write `random_search`")
        discrete[name] = space
    wanted = search.grid_search.n_experiments if search.grid_search else None
    number = _number(discrete)
    count = _checked(number if wanted is None else min(wanted, number), "grid_search")
    return [_at(discrete, index) for index in range(count)]


def _checked(count: int, algorithm: str) -> int:
    if count > MOST_TRIALS:
        hint = _FEWER.get(algorithm, f"write `{algorithm}: {{n_experiments: {MOST_TRIALS}}}` or fewer")
        raise ValueError(f"it has {count} trials, and {MOST_TRIALS} are the most; {hint}")
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
    spaces, weights = spaces_of(search), {name: weights_of(one) for name, one in search.matrix.items()}
    random = Random(search.seed)  # noqa: S311 - trials are no secret
    if (discrete := _discrete(spaces)) is not None and _number(discrete) <= MOST_TRIALS:
        return [_at(discrete, index) for index in _combinations(random, discrete, weights)[:count]]
    drawn = (
        {name: _drawn(random, spaces[name], weights[name]) for name in spaces} for _ in itertools.count()
    )
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


# --- Generations of adaptive searches


class TrialResult(NamedTuple):
    """A trial that is over: its number, its params, and its value of the metric; None if it has none."""

    number: int
    params: Trial
    value: float | None


class NextTrial(NamedTuple):
    """A trial that follows; ``origin``: the number of the first trial with its params, if there is one."""

    params: Trial
    origin: int | None = None


def generation_sizes(search: Search) -> Sequence[tuple[int, int]]:
    """Return the most trials of each generation, and how many such generations follow each other.

    A search whose trials are all known has no generations.
    """
    if search.hyperband:
        rounds = itertools.zip_longest(*_brackets_of(search.hyperband), fillvalue=Round(0, 0))
        return [(sum(one.trials for one in each), 1) for each in rounds]
    if search.bo is None:
        return []
    each, iterations = search.concurrency or 1, search.bo.n_iterations
    found = [(search.bo.n_initial_trials, 1), (each, iterations // each), (iterations % each, 1)]
    return [(size, times) for size, times in found if size and times]


def most_trials(search: Search) -> int:
    """Return how many trials all generations have together; 0 for a search whose trials are all known."""
    return sum(size * times for size, times in generation_sizes(search))


def generation_count(search: Search) -> int:
    """Return how many generations there are at most; 0 for a search whose trials are all known."""
    return sum(times for _, times in generation_sizes(search))


def generation_of(search: Search, there: Sequence[Trial]) -> int:
    """Return the number of the generation that has the last of these trials, from 1."""
    if search.hyperband:  # whose params are tried once in each round that they reach
        return max(Counter(_key(one, search.hyperband) for one in there).values(), default=1)
    if search.bo is None:
        return 1
    return 1 + math.ceil(max(0, len(there) - search.bo.n_initial_trials) / (search.concurrency or 1))


# --- Hyperband: how many trials each round has, how much of the resource each of them gets, and which follow
#
# Source: Li, Jamieson, DeSalvo, Rostamizadeh and Talwalkar, "Hyperband", JMLR 2018, algorithm 1; Polyaxon's
# own (2.18, ``V1Hyperband``) has the same numbers, but where a float keeps it from an exact power of
# ``eta``. Optuna's HyperbandPruner stops running loops, and does not say which jobs a round has.

LEAST_ETA: Final = 1.1
MOST_ETA: Final = 1000
MOST_AMOUNT: Final = 10**9


class Round(NamedTuple):
    """A round of a bracket: its trials, and the amount of the resource that each of them gets in all."""

    trials: int
    amount: float


def has_brackets(most: float, eta: float) -> bool:
    """Return whether there are brackets of these numbers: beyond them they would be too many to count."""
    return 1 <= most <= MOST_AMOUNT and LEAST_ETA <= eta <= MOST_ETA


def brackets(most: float, eta: float) -> Sequence[Sequence[Round]]:
    """Return the brackets, the one with most trials first; the last round of each gives ``most``.

    Rounds that no trial reaches are left out. The numbers have to be possible.
    """
    last = 0
    while eta ** (last + 1) <= most * (1 + 1e-12):
        last += 1
    return [[*_rounds(most, eta, last, number)] for number in range(last, -1, -1)]


def _rounds(most: float, eta: float, last: int, number: int) -> Iterator[Round]:
    first = math.ceil((last + 1) * eta**number / (number + 1) - 1e-9)
    for at in range(number + 1):
        if trials := math.floor(first / eta**at + 1e-9):
            yield Round(trials, most * eta ** (at - number))


def _brackets_of(algorithm: Hyperband) -> Sequence[Sequence[Round]]:
    return brackets(algorithm.max_iterations, algorithm.eta)


def first_size(algorithm: Hyperband) -> int:
    """Return how many trials the first generation has."""
    return sum(rounds[0].trials for rounds in _brackets_of(algorithm))


def first_generation(algorithm: Hyperband, params: Sequence[Trial]) -> list[Trial]:
    """Return the trials of the first generation: these params, each with the resource of its bracket."""
    rounds = (one[0] for one in _brackets_of(algorithm) for _ in range(one[0].trials))
    return [_with_amount(own, algorithm, one) for own, one in zip(params, rounds, strict=False)]


def next_generation(algorithm: Hyperband, results: Sequence[TrialResult]) -> list[NextTrial]:
    """Return the trials of the next generation; none if the search is over.

    ``results``: of all trials so far, in the order of their numbers. Those without a value have no successor.
    """
    by_params: dict[str, list[TrialResult]] = {}
    for one in results:
        by_params.setdefault(_key(one.params, algorithm), []).append(one)
    left, found = [*by_params.values()], list[NextTrial]()
    for rounds in _brackets_of(algorithm):
        own, left = left[: rounds[0].trials], left[rounds[0].trials :]
        found += _next_round(algorithm, rounds, own)
    return found


def _next_round(
    algorithm: Hyperband, rounds: Sequence[Round], own: Sequence[Sequence[TrialResult]]
) -> Iterator[NextTrial]:
    """Yield the trials of the first round that is not there yet; ``own``: the results of the bracket."""
    origins = {_key(first.params, algorithm): first.number for first, *_ in own}
    members = [first for first, *_ in own]
    for each in rounds[1:]:
        amount = _amount(algorithm, each)
        there = [
            one for results in own for one in results if one.params.get(algorithm.resource.name) == amount
        ]
        if not there:
            for one in _best_first(members, algorithm)[: each.trials]:
                yield NextTrial(
                    _with_amount(one.params, algorithm, each), origins[_key(one.params, algorithm)]
                )
            return
        members = there


def _best_first(results: Sequence[TrialResult], algorithm: Hyperband) -> list[TrialResult]:
    """Return those that have a value, the best first."""
    sign = -1 if algorithm.metric.optimization == "maximize" else 1
    known = [one for one in results if one.value is not None and not math.isnan(one.value)]
    return sorted(known, key=lambda one: (sign * (one.value or 0.0), one.number))


def _key(params: Trial, algorithm: Hyperband) -> str:
    others = {name: value for name, value in params.items() if name != algorithm.resource.name}
    return json.dumps(others, sort_keys=True, default=str)


def _with_amount(params: Trial, algorithm: Hyperband, one: Round) -> Trial:
    return {**params, algorithm.resource.name: _amount(algorithm, one)}


def _amount(algorithm: Hyperband, one: Round) -> float:
    whole = algorithm.resource.type == "int"
    return max(1, math.floor(one.amount + 1e-9)) if whole else one.amount

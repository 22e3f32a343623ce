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
    Metric,
    Search,
    Value,
    values_of,
    weights_of,
)

# --- Hyperband

# --- Hyperband's brackets: how many trials each round has, and how much of the resource each of them gets
#
# Source: Li, Jamieson, DeSalvo, Rostamizadeh and Talwalkar, "Hyperband", JMLR 2018, algorithm 1; Polyaxon's
# own (2.18, ``V1Hyperband``) has the same numbers, but where a float keeps it from an exact power of
# ``eta``.

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
    return [_bracket(most, eta, last, number) for number in range(last, -1, -1)]


def _bracket(most: float, eta: float, last: int, number: int) -> Sequence[Round]:
    first_generation = math.ceil((last + 1) * eta**number / (number + 1) - 1e-9)
    rounds = (
        Round(_whole(first_generation / eta**at), most * eta ** (at - number)) for at in range(number + 1)
    )
    return [one for one in rounds if one.trials]


def _whole(count: float) -> int:
    return math.floor(count + 1e-9)


# --- Hyperband

Trial = Mapping[str, Value]
"""The params of one trial."""


class TrialResult(NamedTuple):
    """A trial that is over: its number, its params, and its value of the metric; None if it has none."""

    number: int
    params: Trial
    value: float | None


class NextTrial(NamedTuple):
    """A trial that follows; ``origin``: the number of the first trial with its params, if there is one."""

    params: Trial
    origin: int | None = None


def first_size(algorithm: Hyperband) -> int:
    """Return how many trials the first generation has."""
    return sum(rounds[0].trials for rounds in _brackets(algorithm))


def generation_sizes(search: Search) -> Sequence[tuple[int, int]]:
    """Return the most trials of each generation, and how many such ones follow each other.

    Those of a search whose trials are all known are none.
    """
    if search.hyperband:
        rounds = itertools.zip_longest(*_brackets(search.hyperband), fillvalue=Round(0, 0))
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
    """Return the number of the generation of which the last of these trials is, from 1."""
    if search.hyperband:  # whose params are tried once in each round that they reach
        return max(Counter(_key(one, search.hyperband) for one in there).values(), default=1)
    if search.bo is None:
        return 1
    return 1 + math.ceil(max(0, len(there) - search.bo.n_initial_trials) / (search.concurrency or 1))


def first_generation(algorithm: Hyperband, sampled: Sequence[Trial]) -> list[Trial]:
    """Return the trials of the first generation: these params, each with the resource of its bracket."""
    rounds = (one[0] for one in _brackets(algorithm) for _ in range(one[0].trials))
    return [_with(params, algorithm, one) for params, one in zip(sampled, rounds, strict=False)]


def next_generation(algorithm: Hyperband, reached: Sequence[TrialResult]) -> list[NextTrial]:
    """Return the trials of the next generation; none if the search is over.

    ``reached``: all trials so far, in the order of their numbers. Those without a value do not go on.
    """
    found, left = list[NextTrial](), _roots(algorithm, reached)
    for rounds in _brackets(algorithm):
        roots, left = left[: rounds[0].trials], left[rounds[0].trials :]
        found += _of_bracket(algorithm, rounds, roots, reached)
    return found


def _roots(algorithm: Hyperband, reached: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the first generation, in which no trial has the params of another; it may have too few."""
    found: dict[str, TrialResult] = {}
    for one in reached:
        found.setdefault(_key(one.params, algorithm), one)
    return [*found.values()]


def better_first(reached: Sequence[TrialResult], metric: Metric) -> list[TrialResult]:
    """Return those that have a value, the best first."""
    sign = -1 if metric.optimization == "maximize" else 1
    there = [one for one in reached if one.value is not None and not math.isnan(one.value)]
    return sorted(there, key=lambda one: (sign * (one.value or 0.0), one.number))


def _of_bracket(
    algorithm: Hyperband,
    rounds: Sequence[Round],
    roots: Sequence[TrialResult],
    reached: Sequence[TrialResult],
) -> Iterator[NextTrial]:
    """Yield the trials of the first round that is not there yet."""
    origins = {_key(one.params, algorithm): one.number for one in roots}
    members = roots
    for each in rounds[1:]:
        amount = _amount(algorithm, each)
        there = [
            one
            for one in reached
            if _key(one.params, algorithm) in origins and one.params.get(algorithm.resource.name) == amount
        ]
        if not there:
            for one in better_first(members, algorithm.metric)[: each.trials]:
                yield NextTrial(_with(one.params, algorithm, each), origins[_key(one.params, algorithm)])
            return
        members = there


def _key(params: Trial, algorithm: Hyperband) -> str:
    others = {name: value for name, value in params.items() if name != algorithm.resource.name}
    return json.dumps(others, sort_keys=True, default=str)


def _with(params: Trial, algorithm: Hyperband, one: Round) -> Trial:
    return {**params, algorithm.resource.name: _amount(algorithm, one)}


def _amount(algorithm: Hyperband, one: Round) -> float:
    whole = algorithm.resource.type == "int"
    return max(1, math.floor(one.amount + 1e-9)) if whole else one.amount


def _brackets(algorithm: Hyperband) -> Sequence[Sequence[Round]]:
    return brackets(algorithm.max_iterations, algorithm.eta)


# --- The trials of a search


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
    known = {name: values_of(space) for name, space in search.matrix.items()}
    discrete = {name: space for name, space in known.items() if isinstance(space, Choices)}
    if search.hyperband:
        sampled = _random(search, known, first_size(search.hyperband), "hyperband")
        return first_generation(search.hyperband, sampled)
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
        if name not in discrete or weights_of(space):
            raise ValueError(f"{name!r} is a distribution, which a grid cannot list; write `random_search`")
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
    known = {name: values_of(space) for name, space in search.matrix.items()}
    random = Random(search.seed)  # noqa: S311 - trials are no secret
    weights = {name: weights_of(space) for name, space in search.matrix.items()}
    discrete = {name: space for name, space in known.items() if isinstance(space, Choices)}
    if len(discrete) == len(known) and _number(discrete) <= MOST_TRIALS:
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

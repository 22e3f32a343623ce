"""Hyperband: which trials a search has at first, and which follow from what earlier ones have reached.

All brackets go on side by side: the first rounds of all of them are one generation of trials, and so are the
second rounds. A trial goes on as a new one, with the same params and more of the resource.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hpcdist.experiment.search.model import Hyperband, Metric, Search

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


def is_possible(most: float, eta: float) -> bool:
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
    first = math.ceil((last + 1) * eta**number / (number + 1) - 1e-9)
    rounds = (Round(_whole(first / eta**at), most * eta ** (at - number)) for at in range(number + 1))
    return [one for one in rounds if one.trials]


def _whole(count: float) -> int:
    return math.floor(count + 1e-9)


# --- Hyperband

Trial = Mapping[str, Any]


class Reached(NamedTuple):
    """A trial that is over: its number, its params, and its value of the metric; None if it has none."""

    number: int
    params: Trial
    value: float | None


class Next(NamedTuple):
    """A trial that follows; ``origin``: the number of the first trial with its params, if there is one."""

    params: Trial
    origin: int | None = None


def first_size(algorithm: Hyperband) -> int:
    """Return how many trials the first generation has."""
    return sum(rounds[0].trials for rounds in _brackets(algorithm))


def sizes(search: Search) -> Sequence[tuple[int, int]]:
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
    return sum(size * times for size, times in sizes(search))


def generations(search: Search) -> int:
    """Return how many generations there are at most; 0 for a search whose trials are all known."""
    return sum(times for _, times in sizes(search))


def generation(search: Search, there: Sequence[Trial]) -> int:
    """Return the number of the generation of which the last of these trials is, from 1."""
    if search.hyperband:  # whose params are tried once in each round that they reach
        return max(Counter(_key(one, search.hyperband) for one in there).values(), default=1)
    if search.bo is None:
        return 1
    return 1 + math.ceil(max(0, len(there) - search.bo.n_initial_trials) / (search.concurrency or 1))


def first(algorithm: Hyperband, sampled: Sequence[Trial]) -> list[Trial]:
    """Return the trials of the first generation: these params, each with the resource of its bracket."""
    rounds = (one[0] for one in _brackets(algorithm) for _ in range(one[0].trials))
    return [_with(params, algorithm, one) for params, one in zip(sampled, rounds, strict=False)]


def following(algorithm: Hyperband, reached: Sequence[Reached]) -> list[Next]:
    """Return the trials of the next generation; none if the search is over.

    ``reached``: all trials so far, in the order of their numbers. Those without a value do not go on.
    """
    found, left = list[Next](), _roots(algorithm, reached)
    for rounds in _brackets(algorithm):
        roots, left = left[: rounds[0].trials], left[rounds[0].trials :]
        found += _of_bracket(algorithm, rounds, roots, reached)
    return found


def _roots(algorithm: Hyperband, reached: Sequence[Reached]) -> list[Reached]:
    """Return the first generation, in which no trial has the params of another; it may have too few."""
    found: dict[str, Reached] = {}
    for one in reached:
        found.setdefault(_key(one.params, algorithm), one)
    return [*found.values()]


def better_first(reached: Sequence[Reached], metric: Metric) -> list[Reached]:
    """Return those that have a value, the best first."""
    sign = -1 if metric.optimization == "maximize" else 1
    there = [one for one in reached if one.value is not None and not math.isnan(one.value)]
    return sorted(there, key=lambda one: (sign * (one.value or 0.0), one.number))


def _of_bracket(
    algorithm: Hyperband, rounds: Sequence[Round], roots: Sequence[Reached], reached: Sequence[Reached]
) -> Iterator[Next]:
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
                yield Next(_with(one.params, algorithm, each), origins[_key(one.params, algorithm)])
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

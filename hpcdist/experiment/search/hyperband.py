"""Hyperband's brackets: how many trials each round has, and how much of the resource each of them gets.

Source: Li, Jamieson, DeSalvo, Rostamizadeh and Talwalkar, "Hyperband", JMLR 2018, algorithm 1; Polyaxon's
own (2.18, ``V1Hyperband``) has the same numbers, but where a float keeps it from an exact power of ``eta``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

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

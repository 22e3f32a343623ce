"""Hyperband's brackets, beside those that Polyaxon 2.18 computed."""

from __future__ import annotations

import pytest

from hpcdist.experiment.search.adaptive import brackets

BRACKETS: list[tuple[float, float, list[list[tuple[int, float]]]]] = [
    (
        81,
        3,
        [
            [(81, 1.0), (27, 3.0), (9, 9.0), (3, 27.0), (1, 81.0)],
            [(34, 3.0), (11, 9.0), (3, 27.0), (1, 81.0)],
            [(15, 9.0), (5, 27.0), (1, 81.0)],
            [(8, 27.0), (2, 81.0)],
            [(5, 81.0)],
        ],
    ),
    (10, 3, [[(9, 1.111111), (3, 3.333333), (1, 10.0)], [(5, 3.333333), (1, 10.0)], [(3, 10.0)]]),
    (
        27,
        2,
        [
            [(16, 1.6875), (8, 3.375), (4, 6.75), (2, 13.5), (1, 27.0)],
            [(10, 3.375), (5, 6.75), (2, 13.5), (1, 27.0)],
            [(7, 6.75), (3, 13.5), (1, 27.0)],
            [(5, 13.5), (2, 27.0)],
            [(5, 27.0)],
        ],
    ),
    (
        100,
        4,
        [
            [(64, 1.5625), (16, 6.25), (4, 25.0), (1, 100.0)],
            [(22, 6.25), (5, 25.0), (1, 100.0)],
            [(8, 25.0), (2, 100.0)],
            [(4, 100.0)],
        ],
    ),
    (1, 3, [[(1, 1.0)]]),
    (5, 3, [[(3, 1.666667), (1, 5.0)], [(2, 5.0)]]),
    (
        16,
        2.5,
        [
            [(16, 1.024), (6, 2.56), (2, 6.4), (1, 16.0)],
            [(9, 2.56), (3, 6.4), (1, 16.0)],
            [(5, 6.4), (2, 16.0)],
            [(4, 16.0)],
        ],
    ),
    (
        300,
        3,
        [
            [(243, 1.234568), (81, 3.703704), (27, 11.111111), (9, 33.333333), (3, 100.0), (1, 300.0)],
            [(98, 3.703704), (32, 11.111111), (10, 33.333333), (3, 100.0), (1, 300.0)],
            [(41, 11.111111), (13, 33.333333), (4, 100.0), (1, 300.0)],
            [(18, 33.333333), (6, 100.0), (2, 300.0)],
            [(9, 100.0), (3, 300.0)],
            [(6, 300.0)],
        ],
    ),
]


@pytest.mark.parametrize(("most", "eta", "expected"), BRACKETS)
def test_brackets_are_those_of_polyaxon(
    most: float, eta: float, expected: list[list[tuple[int, float]]]
) -> None:
    found = [[(one.trials, round(one.amount, 6)) for one in bracket] for bracket in brackets(most, eta)]
    assert found == expected


@pytest.mark.parametrize(("power", "eta"), [(5, 3), (3, 10), (10, 2), (4, 5)])
def test_an_exact_power_of_eta_has_all_its_brackets(power: int, eta: int) -> None:
    """Polyaxon has one bracket too few for 243 and 3: the quotient of two logarithms is 4.999."""
    found = brackets(eta**power, eta)
    assert (len(found), found[0][0].trials, found[0][0].amount) == (power + 1, eta**power, 1)

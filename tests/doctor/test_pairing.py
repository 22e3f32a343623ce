"""Which nodes meet in which round, and who is found to be slow: simulated clusters."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Final

import pytest

from hpcdist.doctor import pairing
from hpcdist.doctor.pairing import Match, Pair, Slow

SIZES: Final = (3, 4, 5, 6, 7, 8, 9, 16, 33, 100, 511, 1999, 2000)
NOBODY: Final = Slow([], [])


def measured(size: int, seed: int, speed: Callable[[Match], float]) -> tuple[Slow, int]:
    """Return the verdict on a cluster with these speeds, and how many rounds it took."""
    planned = pairing.planned(size, seed)
    pairs = [Pair(*match, speed(match)) for match in itertools.chain(*planned)]
    confirmed = [Pair(*match, speed(match)) for match in pairing.confirmation(pairs)]
    return pairing.verdict(pairs, confirmed), len(planned) + bool(confirmed)


def noisy(chance: random.Random, factor: Callable[[Match], float]) -> Callable[[Match], float]:
    """Return a network of 20 GB/s in which others take up to 30 % of any measurement."""
    noise = chance.choice((0.0, 0.1, 0.3))
    return lambda match: 20 * factor(match) * chance.uniform(1 - noise, 1)


@pytest.mark.parametrize("size", [2, *SIZES])
def test_each_node_meets_another_one_in_each_round_and_none_twice(size: int) -> None:
    found = pairing.rounds(size, seed=size)
    assert len(found) == min(math.ceil(math.log2(size)) + 1, size - 1 + size % 2)
    for matches in found:
        assert len({node for match in matches for node in match}) == 2 * len(matches) == size - size % 2
    matches = [*itertools.chain(*found)]
    assert len({*matches}) == len(matches)
    assert all(left < right < size for left, right in matches)


@pytest.mark.parametrize("size", [0, 1])
def test_a_node_alone_has_no_partner(size: int) -> None:
    assert pairing.rounds(size) == []
    assert (pairing.usual([]), pairing.slow([]), pairing.confirmation([])) == (0.0, NOBODY, [])


def test_of_four_nodes_all_links_are_measured_and_another_seed_measures_others() -> None:
    assert {*itertools.chain(*pairing.rounds(4))} == {*itertools.combinations(range(4), 2)}
    assert pairing.rounds(64, 1) == pairing.rounds(64, 1) != pairing.rounds(64, 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (1, 2, 3))])
def test_the_slow_node_the_slow_link_or_nobody_is_named_in_logarithmic_time(size: int, seed: int) -> None:
    chance = random.Random(seed * 5000 + size)  # noqa: S311 - a simulation
    most = max(math.ceil(math.log2(size)) + 2, pairing.FEWEST_ROUNDS + 1)
    node = chance.randrange(size)
    link = chance.choice([*itertools.chain(*pairing.rounds(size, seed))])
    for factor, expected in (
        (lambda match: 0.1 if node in match else 1.0, Slow([node], [])),
        (lambda match: 0.1 if match == link else 1.0, Slow([], [link])),
        (lambda _: 1.0, NOBODY),
    ):
        found, rounds = measured(size, seed, noisy(chance, factor))
        assert (found, rounds <= most) == (expected, True)


def test_two_slow_nodes_are_both_named_the_slowest_first() -> None:
    factors = {3: 0.3, 11: 0.1}
    found, _ = measured(32, 0, lambda match: 20 * min(factors.get(node, 1.0) for node in match))
    assert found == Slow([11, 3], [])


def test_a_pair_that_was_slow_once_accuses_nobody() -> None:
    pairs = [Pair(*match, 1.0) for match in itertools.chain(*pairing.rounds(8))]
    pairs[0] = pairs[0]._replace(bandwidth=0.01)
    again = pairs[0]._replace(bandwidth=0.9)
    assert pairing.confirmation(pairs) == [pairs[0][:2]]
    assert pairing.verdict(pairs, [pairs[0]]) == Slow([], [Match(*pairs[0][:2])])
    assert pairing.verdict(pairs, [again]) == NOBODY
    assert pairing.verdict(pairs, []) == NOBODY


def test_two_nodes_accuse_nobody() -> None:
    assert pairing.slow([Pair(0, 1, 0.001)]) == NOBODY


def test_of_three_nodes_on_a_busy_machine_one_at_a_quarter_is_not_accused() -> None:
    assert pairing.slow([Pair(0, 1, 0.6), Pair(0, 2, 0.5), Pair(1, 2, 2.5)]) == NOBODY
    assert pairing.slow([Pair(0, 1, 0.2), Pair(0, 2, 0.2), Pair(1, 2, 2.5)]) == Slow([0], [])


@pytest.mark.parametrize("size", [3, 4, 5, 8, 16])
@pytest.mark.parametrize(("noise", "least"), [(0.02, 50), (0.05, 47)])
def test_of_few_nodes_one_at_half_the_bandwidth_is_found(size: int, noise: float, least: int) -> None:
    found = [of_half(size, seed, noise) for seed in range(50)]
    assert sum(one.nodes == [node] for one, _, node in found) >= least
    assert {len(healthy.nodes) + len(healthy.links) for _, healthy, _ in found} == {0}


def of_half(size: int, seed: int, noise: float) -> tuple[Slow, Slow, int]:
    """Return the verdicts with a node at half the bandwidth and with none, and that node."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    node = chance.randrange(size)
    slow, _ = measured(size, seed, lambda match: 20 / (1 + (node in match)) * chance.gauss(1, noise))
    healthy, _ = measured(size, seed, lambda _: 20 * chance.gauss(1, noise))
    return slow, healthy, node


def test_what_could_not_have_been_seen_is_known() -> None:
    chance = random.Random(1)  # noqa: S311 - a simulation
    matches = [*itertools.chain(*pairing.planned(4, 1))]
    quiet = [Pair(*match, 20 * chance.gauss(1, 0.01)) for match in matches]
    loud = [Pair(*match, 20 * chance.uniform(0.2, 1)) for match in matches]
    assert pairing.visible(quiet) == pytest.approx(0.75)
    assert pairing.visible(loud) < 0.65
    assert pairing.visible([]) == 0.0

"""Which nodes are measured with which, and which of them are slow; pure, for Python 3.8, and without hpcdist.

All nodes are measured at once, in pairs, one round after another, as in a tournament: ``ceil(log2 N) + 1``
rounds, in which no two nodes meet twice, and one more for those that look slow. A slow node is slow in all of
its pairs, so its fastest one shows it; a slow link is slow in one pair, whose nodes are fast in others. Few
nodes have few values: they go through the tournament several times, and how far repeats differ is the noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

LOWEST, HIGHEST, FEW = 0.125, 0.75, 8
"""Below the first share of what is usual it is slow, above the second not; between them, if it is so many
deviations off. Of ``FEW`` values the second is half as large: two nodes have their best pair in common, so
that the deviation of few values is often none, on a busy machine as well."""
DEVIATIONS, OF_ONE_PAIR = 5.0, 2.5
"""Of the values themselves, and of single pairs, which show the noise that the best of several hides.

The deviation is 1.4826 times the median absolute one, which is the standard deviation of a normal
distribution (Rousseeuw and Croux, doi.org/10.1080/01621459.1993.10476408) and ignores outliers.
"""

FEWEST_ROUNDS = 15
"""So many rounds of few nodes, which are over in seconds: three times or more for up to 16 nodes."""
FEWEST_REPEATS, OF_REPEATS = 3, 6.0
"""From so many repeats of a pair on, the distance of the best two is how far its best one may be off; slow is
what is farther below the middle than six of these."""


class Match(NamedTuple):
    """Two nodes by number, the smaller first."""

    left: int
    right: int


class Pair(NamedTuple):
    """Two nodes by number, the smaller first; the bandwidth of each direction in GB/s; the latency in µs."""

    left: int
    right: int
    bandwidth: float
    latency: float = 0.0


class Slow(NamedTuple):
    """The nodes and the links that are slow, the slowest first."""

    nodes: list[int]
    links: list[Match]


def rounds(size: int, seed: int = 0) -> list[list[Match]]:
    """Return the matches of each round: all nodes at once, with a bye where their number is odd.

    These are turns of a tournament by the circle method; the seed chooses them, so that another seed measures
    other links. Up to five nodes, or six, these are all links.
    """
    if size < 2:  # noqa: PLR2004 - one node has no partner
        return []
    seats = size + size % 2
    count = min(seats - 1, math.ceil(math.log2(size)) + 1)
    chance = random.Random(seed)  # noqa: S311 - a choice of partners is no secret
    order = chance.sample(range(size), size)
    turns = chance.sample(range(seats - 1), count)
    return [[_match(order, a, b) for a, b in _turn(seats, turn) if max(a, b) < size] for turn in turns]


def planned(size: int, seed: int = 0) -> list[list[Match]]:
    """Return the matches of all rounds, with the repeats of few nodes; two nodes have none."""
    turns = rounds(size, seed)
    return turns * (max(1, FEWEST_ROUNDS // len(turns)) if size > 2 else 1)  # noqa: PLR2004


def _turn(seats: int, turn: int) -> list[tuple[int, int]]:
    """Return the pairs of one turn: the last seat stays, the others go around."""
    around = seats - 1
    others = [((turn + step) % around, (turn - step) % around) for step in range(1, seats // 2)]
    return [(around, turn), *others]


def _match(order: list[int], one: int, other: int) -> Match:
    return _sorted(order[one], order[other])


def best(pairs: Iterable[Pair]) -> dict[int, float]:
    """Return the highest bandwidth of each node: others may slow down a pair, and nothing makes it faster."""
    found: dict[int, float] = {}
    for pair in pairs:
        for node in pair[:2]:
            found[node] = max(found.get(node, 0.0), pair.bandwidth)
    return found


def usual(pairs: Iterable[Pair]) -> float:
    """Return what a node of this job usually reaches: the median of the nodes' highest; 0 without any."""
    found = best(pairs)
    return median(found.values()) if found else 0.0


def slow(pairs: Iterable[Pair]) -> Slow:
    """Return what is slow among these pairs; a pair that was measured twice counts with the higher one."""
    found = [*pairs]
    own, together, noise = best(found), _together(found), _noise(found)
    limit = _limit_of(found)
    nodes = {node: speed for node, speed in own.items() if speed < limit}
    shares = {
        match: speed / (min(own[match.left], own[match.right]) or 1.0)
        for match, speed in together.items()
        if not nodes.keys() & {*match}
    }
    limit = _limit([*shares.values()], OF_REPEATS * (noise or 0.0), few=FEW if noise is None else 0)
    links = {match: share for match, share in shares.items() if share < limit}
    return Slow(sorted(nodes, key=nodes.__getitem__), sorted(links, key=links.__getitem__))


def visible(pairs: Iterable[Pair]) -> float:
    """Return below which share of what is usual a node would be slow; 0 without any pair."""
    found = [*pairs]
    return _limit_of(found) / (usual(found) or 1.0)


def _together(pairs: list[Pair]) -> dict[Match, float]:
    found: dict[Match, float] = {}
    for pair in pairs:
        match = Match(pair.left, pair.right)
        found[match] = max(found.get(match, 0.0), pair.bandwidth)
    return found


def _noise(pairs: list[Pair]) -> float | None:
    """Return how far the best two repeats of a pair are apart, as a share; None for too few."""
    repeats: dict[Match, list[float]] = {}
    for pair in pairs:
        repeats.setdefault(Match(pair.left, pair.right), []).append(pair.bandwidth)
    ranked = [sorted(speeds, reverse=True) for speeds in repeats.values() if len(speeds) >= FEWEST_REPEATS]
    if not ranked or len(ranked) < len(repeats) / 2:
        return None
    return median(1 - second / first if first else 0.0 for first, second, *_ in ranked)


def _limit_of(pairs: list[Pair]) -> float:
    """Return below which best bandwidth a node is slow."""
    own, noise = best(pairs), _noise(pairs)
    middle = median(own.values()) if own else 0.0
    if noise is not None:
        return _limit([*own.values()], OF_REPEATS * noise * middle, few=0)
    others = [speed for speed in _together(pairs).values() if speed > middle / 2]
    return _limit([*own.values()], OF_ONE_PAIR * _deviation(others))


def _limit(values: list[float], margin: float = 0.0, few: int = FEW) -> float:
    """Return below which value one of these is slow, at least this margin below the middle."""
    if not values:
        return 0.0
    middle = median(values)
    highest = HIGHEST * middle * len(values) / (len(values) + few)
    return max(LOWEST * middle, min(highest, middle - max(DEVIATIONS * _deviation(values), margin)))


def _deviation(values: list[float]) -> float:
    middle = median(values) if values else 0.0
    return 1.4826 * median(abs(value - middle) for value in values) if values else 0.0


def confirmation(pairs: list[Pair]) -> list[Match]:
    """Return one more round: nodes that look slow with fast ones, and links that look slow once more.

    Partners are the fastest that are free, and that a node has not met yet where there are some.
    """
    found, own = slow(pairs), best(pairs)
    met = {(pair.left, pair.right) for pair in pairs}
    busy = {*found.nodes}
    matches: list[Match] = []
    for link in found.links:
        if not busy & {*link}:
            busy |= {*link}
            matches.append(link)
    free = sorted(own.keys() - busy, key=own.__getitem__)
    for node in found.nodes:
        partner = next((one for one in reversed(free) if _sorted(node, one) not in met), None)
        partner = free[-1] if partner is None and free else partner
        if partner is not None:
            free.remove(partner)
            matches.append(_sorted(node, partner))
    return matches


def _sorted(one: int, other: int) -> Match:
    return Match(min(one, other), max(one, other))


def verdict(pairs: list[Pair], confirmed: list[Pair]) -> Slow:
    """Return what is slow with all that was measured, and was measured again in the last round."""
    again = {(pair.left, pair.right) for pair in confirmed}
    nodes = {node for match in again for node in match}
    found = slow([*pairs, *confirmed])
    return Slow([node for node in found.nodes if node in nodes], [one for one in found.links if one in again])

"""The law of suspicion: how much the evidence against a node weighs, and how that decays.

A node's suspicion is the sum, over its evidence, of WEIGHT x 2 ** (-AGE / HALF_LIFE); it is suspect from
THRESHOLD on. Of several losses within an hour, as where a node with many jobs goes down, the first counts.
So one loss makes a node suspect for a week, and two failures do that are at most a week apart: a week leaves
time to repair a node, and one that fails again within it was not repaired.
``templates/runtime/supervisor/nodes.py`` computes the same inside a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hpcdist.nodes.evidence import Evidence, Kind

HALF_LIFE: Final = 7 * 86400.0
"""Seconds."""

THRESHOLD: Final = 0.5
WEIGHTS: Final[Mapping[Kind, float]] = {"lost": 1.0, "failed": 1 / 3, "slow": 1 / 3}
_ONE_LOSS: Final = 3600.0


class Node(NamedTuple):
    """A node of a site, how much it is suspected, and the evidence, the newest first."""

    site: str
    name: str
    suspicion: float
    evidence: tuple[Evidence, ...]

    @property
    def is_suspect(self) -> bool:
        """Whether jobs should do without it."""
        return self.suspicion >= THRESHOLD


def of(evidence: Iterable[Evidence], now: float) -> float:
    """Return the suspicion of one node; evidence of the future is taken as of now."""
    total, loss = 0.0, float("-inf")
    for one in sorted(evidence, key=lambda one: one.at):
        if one.kind == "lost":
            if one.at - loss < _ONE_LOSS:
                continue
            loss = one.at
        total += WEIGHTS[one.kind] * 2 ** (-max(0.0, now - one.at) / HALF_LIFE)
    return total


def nodes(evidence: Iterable[Evidence], now: float) -> list[Node]:
    """Return the nodes that this is against, the most suspect first."""
    found: dict[tuple[str, str], list[Evidence]] = {}
    for one in evidence:
        found.setdefault((one.site, one.node), []).append(one)
    known = [
        Node(*key, of(own, now), tuple(sorted(own, key=lambda one: -one.at))) for key, own in found.items()
    ]
    return sorted(known, key=lambda node: (-node.suspicion, node.site, node.name))

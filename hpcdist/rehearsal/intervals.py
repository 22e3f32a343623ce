"""How often to save: the formula of Young and Daly."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

FORMULA: Final = "Young (1974), with the terms of higher order of Daly (2006)"
"""J. W. Young, CACM 17(9), doi:10.1145/361147.361115; J. T. Daly, doi:10.1016/j.future.2004.11.016."""

SOURCE_OF_DEFAULT: Final = "The Llama 3 Herd of Models, arXiv:2407.21783"
DEFAULT_NODE_MTBF_HOURS: Final = 54 * 24 * (16_384 / 8) / 419
"""419 unexpected interruptions in 54 days on 16,384 GPUs, of which a node had 8: 6335 hours."""


def interval(write_seconds: float, mtbf_seconds: float) -> float:
    """Return the seconds between two checkpoints with which least time is lost, without those of the writing.

    ``write_seconds``: how long the training waits for a checkpoint; ``mtbf_seconds``: the mean time between
    failures of the job. Equation (37) of Daly.
    """
    if write_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = write_seconds / (2 * mtbf_seconds)
    first = math.sqrt(2 * write_seconds * mtbf_seconds)
    return first * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write_seconds


class Mtbf(NamedTuple):
    """The mean time between failures of a node in hours, and where that is from."""

    node_hours: float
    source: str

    def of_job(self, nodes: int) -> float:
        """Return that of a job on so many nodes, which ends with each of them, in seconds."""
        return self.node_hours * 3600 / nodes


def choose(given: float | None, of_site: float | None) -> Mtbf:
    """Return the given one, else that of the site, else one that was measured elsewhere."""
    if given is not None:
        return Mtbf(given, "--mtbf")
    if of_site is not None:
        return Mtbf(of_site, "the site file")
    return Mtbf(DEFAULT_NODE_MTBF_HOURS, SOURCE_OF_DEFAULT)

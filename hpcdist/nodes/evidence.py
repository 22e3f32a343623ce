"""Evidence against nodes: what one attempt of a run showed of one of them."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["lost", "failed", "slow"]


class Evidence(NamedTuple):
    """One observation against a node.

    ``at``: when, in seconds since 1970 by the clock of the job's first node, which writes the run's event
    log; what reads it takes a time ahead of its own clock as now. ``node``: its name as the batch system
    names it, with its domain if that has one. ``kind``: ``lost`` where the batch system or the kernel reports
    that the node or a device of it is out of order (node down, Xid, ECC, a dead link); ``failed`` where the
    first task to fail ran on it, and nothing shows why; ``slow`` where it was slower than its peers.
    ``attempt``: the number of the run's attempt, 0 for the first. ``text``: a sentence of one line, with the
    numbers.
    """

    at: float
    site: str
    node: str
    kind: Kind
    run: str
    attempt: int
    text: str

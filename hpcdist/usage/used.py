"""All that a run used: its cost, the use of its GPUs, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.state import Attempt
from hpcdist.schedulers.job import JobState
from hpcdist.usage import advice, samples
from hpcdist.usage.advice import Advice
from hpcdist.usage.cost import Consumption, starts
from hpcdist.usage.samples import NodeUse


class Used(NamedTuple):
    """What the jobs of a run cost, how the GPUs of their nodes were used, and what that suggests.

    ``nodes_left_out``: how many more nodes have samples, which are not read.
    """

    costs: tuple[Consumption, ...]
    nodes: tuple[NodeUse, ...]
    advice: tuple[Advice, ...]
    nodes_left_out: int = 0


def of_run(directory: RunDirectory, found: Sequence[Attempt], now: float) -> Used:
    """Return what the jobs of these attempts used."""
    plan = directory.plan()
    costs = starts(found, plan, now)
    nodes, left_out = samples.read(directory, plan, dict.fromkeys(attempt.job for attempt in found))
    is_over = all(attempt.state == JobState.COMPLETED.value for attempt in found)
    return Used(costs, nodes, advice.advice(costs, nodes, plan, is_over=is_over), left_out)

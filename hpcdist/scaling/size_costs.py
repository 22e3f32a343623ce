"""What a study may cost at most, before it is submitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcdist.cost import worst_case
from hpcdist.cost.worst_case import Cost, Sum
from hpcdist.errors import PlanError, Problem
from hpcdist.loading.planning import Planned


class SizeCost(NamedTuple):
    """All runs of one size; ``each``: what one of them takes at most, None without a time limit."""

    nodes: int
    tasks: int
    gpus: int
    runs: int
    each: Cost | None

    @property
    def gpu_hours(self) -> float | None:
        """The GPU-hours of all of them, with all attempts; None without a time limit."""
        return self.each and self.runs * self.each.gpu_hours

    @property
    def node_hours(self) -> float | None:
        """Their node-hours."""
        return self.each and self.runs * self.each.node_hours


def of_plans(plans: Iterable[Planned], repeat: int) -> list[SizeCost]:
    """Return what each size may cost, which runs so often."""
    return [_costs(made, repeat) for made in plans]


def _costs(made: Planned, repeat: int) -> SizeCost:
    placement = made.plan.placement
    gpus = sum(group.gpus * group.nodes for group in placement.groups)
    each = worst_case.most(made.plan, made.experiment, made.machine.site)
    return SizeCost(placement.nodes, placement.size, gpus, repeat, each)


def charged(found: Iterable[SizeCost]) -> Sum:
    """Return what all runs of all sizes take together."""
    return Sum([(size.each, size.runs) for size in found])


def total(hours: Iterable[float | None]) -> float | None:
    """Return the sum; None where one of them has no limit."""
    found = [*hours]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def check(found: Sequence[SizeCost], most: float | None) -> None:
    """Check that all sizes together cost at most so many GPU-hours.

    Raises:
        PlanError: if they may cost more.
    """
    if most is None:
        return
    hours = total(size.gpu_hours for size in found)
    if hours is None:
        message = "jobs without a time limit may take any number of GPU-hours"
        raise PlanError(Problem(message, ("batch", "walltime"), "set it, such as --set batch.walltime=10m"))
    if hours > most:
        message = f"the study may take {hours:.4g} GPU-hours, more than --max-gpu-hours {most:g}"
        raise PlanError(Problem(message, hint="leave out sizes or repetitions, or shorten `batch.walltime`"))

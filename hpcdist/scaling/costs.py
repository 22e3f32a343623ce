"""What a study may cost at most, before it is submitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcdist.errors import PlanError, Problem
from hpcdist.loading import planning
from hpcdist.loading.planning import Planned
from hpcdist.planner import budget
from hpcdist.units import Walltime


class Cost(NamedTuple):
    """All runs of one size; their seconds are those of whole jobs up to the walltime, None without one."""

    nodes: int
    tasks: int
    gpus: int
    walltime: Walltime | None
    runs: int
    gpu_seconds: int | None
    node_seconds: int | None


def costs(plans: Iterable[Planned], repeat: int) -> list[Cost]:
    """Return what each size may cost, which runs so often; attempts that follow each other all count."""
    return [_cost(made, repeat) for made in plans]


def _cost(made: Planned, repeat: int) -> Cost:
    placement, request = made.plan.placement, made.plan.request
    walltime, site = request.walltime, made.machine.site
    jobs = repeat * len(planning.in_jobs(made))
    gpu_seconds = budget.cost_of(placement, site, walltime, exclusive=request.exclusive)
    return Cost(
        nodes=placement.nodes,
        tasks=placement.size,
        gpus=sum(group.gpus * group.nodes for group in placement.groups),
        walltime=walltime,
        runs=repeat,
        gpu_seconds=None if gpu_seconds is None else jobs * gpu_seconds,
        node_seconds=None if walltime is None else jobs * placement.nodes * walltime.seconds,
    )


def total(seconds: Iterable[int | None]) -> int | None:
    """Return the sum; None where one of them has no limit."""
    found = [*seconds]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def check(found: Sequence[Cost], most: float | None) -> None:
    """Check that all sizes together cost at most so many GPU-hours.

    Raises:
        PlanError: if they may cost more.
    """
    if most is None:
        return
    seconds = total(cost.gpu_seconds for cost in found)
    if seconds is None:
        message = "jobs without a time limit may take any number of GPU-hours"
        raise PlanError(Problem(message, ("batch", "walltime"), "set it, such as --set batch.walltime=10m"))
    if seconds > most * 3600:
        message = f"the study may take {seconds / 3600:.4g} GPU-hours, more than --max-gpu-hours {most:g}"
        raise PlanError(Problem(message, hint="leave out sizes or repetitions, or shorten `batch.walltime`"))

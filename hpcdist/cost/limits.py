"""Limits: the most GPU-hours that a job may take, as its file or the user's config says."""

from __future__ import annotations

from hpcdist.cost.rates import number
from hpcdist.cost.worst_case import Cost
from hpcdist.errors import PlanError, Problem
from hpcdist.units import Walltime


def check_limit(most: float | None, cost: Cost | None, key: str = "max_gpu_hours") -> None:
    """Check that the worst case is within so many GPU-hours, which this key of ``batch`` allows.

    Raises:
        PlanError: if it is not, or if nothing limits it; located where the limit is written.
    """
    path = ("batch", key)
    if most is None:
        return
    if cost is None:
        message = f"a job without a time limit may take more than {number(most)} GPU-hours"
        raise PlanError(Problem(message, path, "set `batch.walltime`"))
    if cost.gpu_hours > most:
        message = f"it may take {number(cost.gpu_hours)} GPU-hours, and {number(most)} are allowed: "
        raise PlanError(Problem(message + cost.arithmetic, path, _hint(most, cost)))


def _hint(most: float, cost: Cost) -> str:
    """Return the longest walltime that is allowed, if that is a minute at least."""
    seconds = int(cost.seconds * most / cost.gpu_hours) // 60 * 60
    shorter = f'`batch: {{walltime: "{Walltime(seconds)}"}}` is within it; else ' if seconds else ""
    return f"{shorter}ask for fewer GPUs, or raise it"

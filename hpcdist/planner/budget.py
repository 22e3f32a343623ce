"""The GPU-hours that a job may take at most, and those that the experiment allows."""

from __future__ import annotations

from hpcdist.cost.limits import check_limit
from hpcdist.cost.rates import amounts_of
from hpcdist.cost.worst_case import Cost
from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.plan.placement import Placement
from hpcdist.site.model import Site
from hpcdist.units import Walltime

_PATH = ("batch", "budget")


def cost_of(placement: Placement, site: Site, walltime: Walltime | None, *, exclusive: bool) -> int | None:
    """Return the GPU-seconds that a job, or one element of an array, takes at most; None without a limit."""
    gpus = amounts_of(placement.groups, site, exclusive=exclusive).gpus
    return None if walltime is None else gpus * walltime.seconds


def check_packed(experiment: Experiment, gpus: int, walltime: Walltime | None) -> None:
    """Check that the job of a packed search, which has so many GPUs in all, fits into the budget.

    Raises:
        PlanError: if it does not.
    """
    hours = experiment.batch.budget
    if hours is not None and walltime is not None and gpus * walltime.seconds > hours * 3600:
        most = gpus * walltime.seconds / 3600
        message = f"the packed trials may take {most:.4g} GPU-hours, more than the budget of {hours:g}"
        hint = "lower `hptuning.concurrency` or `batch.walltime`, or raise it"
        raise PlanError(Problem(message, _PATH, hint))


def check_whole(experiment: Experiment, cost: Cost | None) -> None:
    """Check that the whole cost of a job, as `plan` shows it, is within the budget; a search has `budget_of`.

    Raises:
        PlanError: if it does not, or if its cost has no limit.
    """
    hours = experiment.batch.budget
    if hours is None or experiment.hptuning:
        return
    if cost and not cost.gpus:
        raise PlanError(_NO_GPUS)
    check_limit(hours, cost, "budget")


def budget_of(experiment: Experiment, cost: int | None) -> int | None:
    """Return the budget of a search in GPU-seconds; None without one.

    ``cost``: what one trial takes, as `cost_of` has it; at least one must fit.

    Raises:
        PlanError: if it does not, or if its cost has no limit.
    """
    hours = experiment.batch.budget
    if hours is None:
        return None
    if cost is None:
        message = "a trial without a time limit may take any number of GPU-hours"
        raise PlanError(Problem(message, _PATH, "set `batch.walltime`"))
    if not cost:
        raise PlanError(_NO_GPUS)
    if cost > hours * 3600:
        message = f"one trial may take {cost / 3600:.4g} GPU-hours, more than the budget of {hours:g}"
        raise PlanError(Problem(message, _PATH, "raise it, or shorten `batch.walltime`"))
    return int(hours * 3600)


_NO_GPUS = Problem("the job has no GPUs, and takes no GPU-hours", _PATH, "remove it")

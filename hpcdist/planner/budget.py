"""The GPU-hours that a job may take at most, and those that the experiment allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.base.errors import PlanError, Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.model import Experiment
from hpcdist.plan.placement import Placement
from hpcdist.planner.worst_case import Cost, amounts_of, check_limit
from hpcdist.site.fabric import JobFacts
from hpcdist.site.model import Site

# --- The account that pays for a job: whether the site requires one, and accepts it for such a job

_PATH: Final = ("batch", "account")


def account_of(experiment: Experiment, site: Site) -> str | None:
    """Return the account that pays for the job.

    Raises:
        PlanError: where the site requires an account, or another one.
    """
    account, rule = experiment.batch.account, site.account
    hint = rule.hint or "write `batch: {account: NAME}` or `--set batch.account=NAME`"
    if account is None and rule.required:
        always = f"`sites: {{{site.name}: {{account: NAME}}}}` in ~/.config/hpcdist/config.yml"
        message = f"site {site.name} requires an account"
        raise PlanError(Problem(message, _PATH, f"{hint}; for all experiments {always}"))
    if account is not None and rule.pattern and not re.fullmatch(rule.pattern, account):
        message = f"site {site.name} has no accounts like {account!r} ({rule.pattern})"
        raise PlanError(Problem(message, _PATH, rule.hint or ""))
    return account


def advice(experiment: Experiment, site: Site, job: JobFacts) -> Iterator[Problem]:
    """Yield what the account's name must be for such a job, as errors or warnings."""
    account = experiment.batch.account
    for rule in site.account.broken_rules(account, job) if account else ():
        jobs = f" for {', '.join(rule.words)}" if rule.words else ""
        number = "no" if rule.refuse else "few"
        message = f"site {site.name} has {number} accounts like {account!r}{jobs} ({rule.pattern})"
        yield Problem(message, _PATH, rule.hint, "error" if rule.refuse else "warning")


def must_suit(experiment: Experiment, site: Site, job: JobFacts) -> None:
    """Check the account.

    Raises:
        PlanError: where the site accepts no account of that name for the job.
    """
    if errors := [one for one in advice(experiment, site, job) if one.severity == "error"]:
        raise PlanError(*errors)


# --- The GPU-hours that a job may take at most, and those that the experiment allows

_BUDGET_PATH = ("batch", "budget")


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
        raise PlanError(Problem(message, _BUDGET_PATH, hint))


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
        raise PlanError(Problem(message, _BUDGET_PATH, "set `batch.walltime`"))
    if not cost:
        raise PlanError(_NO_GPUS)
    if cost > hours * 3600:
        message = f"one trial may take {cost / 3600:.4g} GPU-hours, more than the budget of {hours:g}"
        raise PlanError(Problem(message, _BUDGET_PATH, "raise it, or shorten `batch.walltime`"))
    return int(hours * 3600)


_NO_GPUS = Problem("the job has no GPUs, and takes no GPU-hours", _BUDGET_PATH, "remove it")

"""The worst case: what a job takes and is charged if all its attempts run to their time limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hpcdist.cost import rates
from hpcdist.cost.rates import Rate, number
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.search.adaptive import most_trials, sizes
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import with_own_nodes
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.units import Walltime


class Cost(NamedTuple):
    """What a job, an array or a search takes at most.

    ``seconds``: the time limit of one attempt of one element (or trial). ``budget``: the GPU-seconds after
    which no further trial starts. ``rate``: None where it is not known what the site charges.
    """

    nodes: int
    gpus: int
    cpus: int
    seconds: int
    elements: int = 1
    attempts: int = 1
    budget: int | None = None
    rate: Rate | None = None

    @property
    def hours(self) -> float:
        """The hours of all attempts of all elements together."""
        hours = self.seconds * self.elements * self.attempts / 3600
        if self.budget is None or not self.gpus:
            return hours
        return min(hours, self.budget / 3600 / self.gpus)

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours."""
        return self.gpus * self.hours

    @property
    def node_hours(self) -> float:
        """The node-hours; a node of which the job has a part is counted as one."""
        return self.nodes * self.hours

    @property
    def charge(self) -> float | None:
        """What the account is charged, in the rate's unit."""
        if self.rate is None:
            return None
        return self.rate.per_hour * self.hours * max(1.0, self.rate.least / self.seconds)

    def in_unit(self, unit: str) -> float | None:
        """Return what it takes of an account that is kept in this unit, None where that is not known."""
        known = {
            "gpu-hours": self.gpu_hours,
            "node-hours": self.node_hours,
            "cpu-hours": self.cpus * self.hours,
        }
        if self.rate and self.charge is not None:
            known[self.rate.unit.lower()] = self.charge
        return known.get(unit.lower())

    @property
    def arithmetic(self) -> str:
        """What it is the product of: ``2 nodes with 8 GPUs for 02:00:00, 4 elements, 3 attempts each``."""
        gpus = f" with {_counted(self.gpus, 'GPU')}" if self.gpus else ""
        parts = [f"{_counted(self.nodes, 'node')}{gpus} for {Walltime(self.seconds)}"]
        parts += [f"{self.elements} of them"] if self.elements > 1 else []
        parts += [f"{self.attempts} attempts{' each' * (self.elements > 1)}"] if self.attempts > 1 else []
        if self.budget is not None and self.hours * 3600 < self.seconds * self.elements * self.attempts:
            parts.append(f"within the budget of {number(self.budget / 3600)}")
        return ", ".join(parts)

    @property
    def summary(self) -> str:
        """It in a few words: ``at most 16 GPU-hours, 4 node-hours (...)``."""
        gpu_hours = f"{number(self.gpu_hours)} GPU-hours, " if self.gpus else ""
        return f"at most {gpu_hours}{number(self.node_hours)} node-hours ({self.arithmetic})"

    @property
    def charge_summary(self) -> str:
        """What is charged, and why: ``at most 32 SU: 2 SU per node-hour (...)``; empty if not known."""
        if self.rate is None or self.charge is None:
            return ""
        return f"at most {number(self.charge)} {self.rate.unit}: {self.rate.why}"

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "gpu_hours": self.gpu_hours,
            "node_hours": self.node_hours,
            "charge": self.charge,
            "unit": self.rate.unit if self.rate else None,
            "rate": self.rate.why if self.rate else None,
            "arithmetic": self.arithmetic,
        }


class Sum(NamedTuple):
    """What several jobs take at most together, each so many times; None where one of them has no limit."""

    costs: Sequence[tuple[Cost | None, int]]

    def of(self, amount: Callable[[Cost], float | None]) -> float | None:
        """Return the sum of an amount; None where that of one of them is not known."""
        found = [(cost and amount(cost), times) for cost, times in self.costs]
        known = [value * times for value, times in found if value is not None]
        return sum(known) if len(known) == len(found) else None

    def in_unit(self, unit: str) -> float | None:
        """Return as `Cost.in_unit`."""
        return self.of(lambda cost: cost.in_unit(unit))

    @property
    def unit(self) -> str:
        """The unit of the charge, empty where there is none or several."""
        units = {cost.rate.unit if cost and cost.rate else "" for cost, _ in self.costs}
        return units.pop() if len(units) == 1 else ""

    @property
    def charge(self) -> float | None:
        """What the account is charged, in `unit`."""
        return self.of(lambda cost: cost.charge) if self.unit else None

    @property
    def lines(self) -> dict[str, str]:
        """What it costs and is charged, as sentences by their titles; none where a job has no limit."""
        gpu_hours, node_hours = self.in_unit("GPU-hours"), self.in_unit("node-hours")
        if gpu_hours is None or node_hours is None or not self.costs:
            return {}
        gpus = f"{number(gpu_hours)} GPU-hours, " if gpu_hours else ""
        found = {"cost": f"at most {gpus}{number(node_hours)} node-hours in all"}
        if self.charge is not None:
            rates = dict.fromkeys(cost.rate.why for cost, _ in self.costs if cost and cost.rate)
            found["charge"] = f"at most {number(self.charge)} {self.unit} in all: {'; '.join(rates)}"
        return found


def worst_case(job: JobSpec, experiment: Experiment, site: Site) -> Cost | None:
    """Return what such jobs take at most; None without a batch system, or as `most`."""
    return most(job, experiment, site) if schedulers.get(site.scheduler).is_batch_system else None


def most(job: JobSpec, experiment: Experiment, site: Site) -> Cost | None:
    """Return what such jobs take at most, on a machine without a batch system too; None without a limit.

    Where the job has no walltime, the limit of its partition applies.
    """
    limit = _limit(job, site)
    if limit is None:
        return None
    groups = with_own_nodes(job.placement, job.own_nodes).groups
    amounts = rates.amounts_of(groups, site, exclusive=job.request.exclusive)
    restarts = job.completion.restarts
    return Cost(
        nodes=amounts.nodes,
        gpus=amounts.gpus,
        cpus=amounts.cpus,
        seconds=limit.seconds,
        elements=_elements(job, experiment),
        attempts=restarts.max + 1 if restarts and restarts.by and restarts.on else 1,
        budget=job.sweep.budget if job.sweep else None,
        rate=rates.rate(groups, job, site),
    )


def _elements(job: JobSpec, experiment: Experiment) -> int:
    """Return how many jobs there are: the elements of an array, or the trials, further generations too.

    Of a packed search they are its nodes, or its one job as often as all nodes of its generations need.
    """
    search = experiment.hptuning
    if job.sweep and not job.sweep.pack:
        return max(job.sweep.trials, most_trials(search) if search else 0)
    first = job.request.array.size if job.request.array else 1
    if search is None or not job.sweep or not job.sweep.pack or not search.is_adaptive:
        return first
    at_once, pack = job.sweep.at_once, job.sweep.pack
    nodes = sum(
        math.ceil(min(size, at_once or size) / pack.per_node) * times for size, times in sizes(search)
    )
    return max(first, nodes if job.request.array else math.ceil(nodes / pack.nodes))


def _limit(job: JobSpec, site: Site) -> Walltime | None:
    """Return how long it may last: without a walltime as its component with the longest limit."""
    if job.request.walltime:
        return job.request.walltime
    partitions = (
        (site.partitions.get(group.site_partition or ""), group.nodes) for group in job.placement.groups
    )
    limits = [partition.walltime_of(nodes) if partition else None for partition, nodes in partitions]
    known = [limit for limit in limits if limit]
    return max(known) if known and len(known) == len(limits) else None


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"

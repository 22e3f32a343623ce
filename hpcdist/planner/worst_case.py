"""The worst case: what a job takes and is charged if all its attempts run to their time limit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.command import Command
from hpcdist.base.errors import PlanError, Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import replica_count
from hpcdist.experiment.trials import generation_sizes, most_trials
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import Group, with_own_nodes
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Left
from hpcdist.site.charges import Balance, Charge
from hpcdist.site.model import Site
from hpcdist.site.provenance import source_of

# --- Rates: what an hour of a job is charged, by what the job has at once

_NAMES = {
    "per_node_hour": "node-hour",
    "per_gpu_hour": "GPU-hour",
    "per_cpu_hour": "CPU-hour",
    "per_gib_hour": "GiB-hour",
}


class Amounts(NamedTuple):
    """What a job has at once: nodes, and the GPUs, CPUs and GiB of memory that no other job can use."""

    nodes: int
    gpus: int
    cpus: int
    gib: float


class Rate(NamedTuple):
    """How many ``unit`` an hour of a job costs; ``why``: the rate that charges most, and its source.

    ``least``: the seconds that a shorter job is charged for.
    """

    per_hour: float
    unit: str
    why: str
    least: int = 0


def number(value: float) -> str:
    """Return a number as people read it: ``1234``, ``12.5``, ``0.033``."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"  # noqa: PLR2004 - four digits


def amounts_of(groups: Iterable[Group], site: Site, *, exclusive: bool) -> Amounts:
    """Return what a job has at once: all of its nodes if it does not share them."""
    found = [_of_node(group, site, exclusive=exclusive) for group in groups]
    return Amounts(*map(sum, zip(*found, strict=True))) if found else Amounts(0, 0, 0, 0)


def _of_node(group: Group, site: Site, *, exclusive: bool) -> Amounts:
    """Return what a job has of all nodes of a group."""
    node = site.node_types.get(group.node_type or "")
    gpus, cpus, mib = group.gpus, group.cpus, group.memory or 0
    if node and exclusive:
        gpus = max(gpus, node.gpus) if isinstance(node.gpus, int) else gpus
        cpus, mib = max(cpus, node.cpus or 0), node.memory.mib if node.memory else mib
    return Amounts(group.nodes, gpus * group.nodes, cpus * group.nodes, mib * group.nodes / 1024)


def rate(groups: Sequence[Group], job: JobSpec, site: Site) -> Rate | None:
    """Return what an hour of the job is charged; None where the charge of some nodes is not known."""
    rates = [_rate_of(group, job, site) for group in groups]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates) or len({rate.unit for rate in known}) != 1:
        return None
    why = " and ".join(dict.fromkeys(rate.why for rate in known))
    least = max(rate.least for rate in known)
    return Rate(sum(rate.per_hour for rate in known), known[0].unit, why, least)


def _rate_of(group: Group, job: JobSpec, site: Site) -> Rate | None:
    charge, key = site.charge_in(group.site_partition, group.node_type)
    amounts = amounts_of([group], site, exclusive=job.request.exclusive)
    if charge is None or (charge.per_gib_hour and not amounts.gib):
        return None  # memory that is not requested is charged by a default of the site
    name, per_hour = max(_parts(charge, amounts), key=lambda part: part[1])
    why = f"{number(getattr(charge, name))} {charge.unit} per {_NAMES[name]}"
    for factor, what in _factors(charge, group, job, site):
        per_hour *= factor
        why += f", times {factor:g} for {what}"
    least = charge.min_walltime.seconds if charge.min_walltime else 0
    why += f", for {charge.min_walltime} at least" if least else ""
    return Rate(per_hour, charge.unit, f"{why} ({_origin(site, f'{key}.{name}')})", least)


def _factors(charge: Charge, group: Group, job: JobSpec, site: Site) -> Iterator[tuple[float, str]]:
    """Yield the factors that multiply the rate of such a job, and why."""
    qos, partition = job.request.qos, site.partitions.get(group.site_partition or "")
    if (factor := charge.qos.get(qos or "", 1.0)) != 1.0:
        yield factor, f"QOS {qos}"
    if partition and partition.charge_factor != 1.0:
        yield partition.charge_factor, f"partition {group.site_partition}"


def _parts(charge: Charge, amounts: Amounts) -> Sequence[tuple[str, float]]:
    """Return the charge per hour by each rate that the site sets, with its key."""
    counts = zip(_NAMES, amounts, strict=True)
    return [(name, rate * count) for name, count in counts if (rate := getattr(charge, name)) is not None]


def _origin(site: Site, key: str) -> str:
    source = source_of(site, key)
    page = f"; {source.where}, read {source.read}" if source else ""
    return f"site {site.name}: {key}{page}"


# --- The worst case


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
        """The node-hours; a node that the job shares counts as one."""
        return self.nodes * self.hours

    @property
    def charge(self) -> float | None:
        """What the account is charged, in the rate's unit."""
        if self.rate is None:
            return None
        return self.rate.per_hour * self.hours * max(1.0, self.rate.least / self.seconds)

    def in_unit(self, unit: str) -> float | None:
        """Return the cost to an account that is kept in this unit; None where it is not known."""
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
        """The factors of the cost: ``2 nodes with 8 GPUs for 02:00:00, 4 of them, 3 attempts each``."""
        gpus = f" with {_counted(self.gpus, 'GPU')}" if self.gpus else ""
        parts = [f"{_counted(self.nodes, 'node')}{gpus} for {Walltime(self.seconds)}"]
        parts += [f"{self.elements} of them"] if self.elements > 1 else []
        parts += [f"{self.attempts} attempts{' each' * (self.elements > 1)}"] if self.attempts > 1 else []
        if self.budget is not None and self.hours * 3600 < self.seconds * self.elements * self.attempts:
            parts.append(f"within the budget of {number(self.budget / 3600)}")
        return ", ".join(parts)

    @property
    def summary(self) -> str:
        """A short summary: ``at most 16 GPU-hours, 4 node-hours (...)``."""
        gpu_hours = f"{number(self.gpu_hours)} GPU-hours, " if self.gpus else ""
        return f"at most {gpu_hours}{number(self.node_hours)} node-hours ({self.arithmetic})"

    @property
    def charge_summary(self) -> str:
        """What is charged, and why: ``at most 32 SU: 2 SU per node-hour (...)``; empty if not known."""
        if self.rate is None or self.charge is None:
            return ""
        return f"at most {number(self.charge)} {self.rate.unit}: {self.rate.why}"

    def as_data(self) -> dict[str, Any]:
        """Return the cost for JSON."""
        return {
            "gpu_hours": self.gpu_hours,
            "node_hours": self.node_hours,
            "charge": self.charge,
            "unit": self.rate.unit if self.rate else None,
            "rate": self.rate.why if self.rate else None,
            "arithmetic": self.arithmetic,
        }


class Sum(NamedTuple):
    """What several jobs take at most together, each a number of times; None: a job without a limit."""

    costs: Sequence[tuple[Cost | None, int]]

    def of(self, amount: Callable[[Cost], float | None]) -> float | None:
        """Return the sum of an amount; None where it is not known for every job."""
        found = [(cost and amount(cost), times) for cost, times in self.costs]
        known = [value * times for value, times in found if value is not None]
        return sum(known) if len(known) == len(found) else None

    def in_unit(self, unit: str) -> float | None:
        """Return as `Cost.in_unit`."""
        return self.of(lambda cost: cost.in_unit(unit))

    @property
    def unit(self) -> str:
        """The unit of the charge, empty without one or with several."""
        units = {cost.rate.unit if cost and cost.rate else "" for cost, _ in self.costs}
        return units.pop() if len(units) == 1 else ""

    @property
    def charge(self) -> float | None:
        """What the account is charged, in `unit`."""
        return self.of(lambda cost: cost.charge) if self.unit else None

    @property
    def lines(self) -> dict[str, str]:
        """The cost and the charge as sentences, by title; empty where a job has no limit."""
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
    """Return what such jobs take at most, as `most`; None without a batch system."""
    return most(job, experiment, site) if schedulers.get(site.scheduler).is_batch_system else None


def most(job: JobSpec, experiment: Experiment, site: Site) -> Cost | None:
    """Return what such jobs take at most, on a machine without a batch system too; None without a limit.

    Where the job has no walltime, the limit of its partition applies.
    """
    limit = _limit(job, site)
    if limit is None:
        return None
    groups = with_own_nodes(job.placement, job.own_nodes).groups
    amounts = amounts_of(groups, site, exclusive=job.request.exclusive)
    restarts = job.completion.restarts
    return Cost(
        nodes=amounts.nodes,
        gpus=amounts.gpus,
        cpus=amounts.cpus,
        seconds=limit.seconds,
        elements=_elements(job, experiment),
        attempts=restarts.max + 1 if restarts and restarts.by and restarts.on else 1,
        budget=job.sweep.budget if job.sweep else None,
        rate=rate(groups, job, site),
    )


def _elements(job: JobSpec, experiment: Experiment) -> int:
    """Return how many jobs there are: the elements of an array, or the trials, further generations too.

    For a packed search: its nodes; without arrays, how often its job runs for all generations.
    """
    search = experiment.hptuning
    if job.sweep and not job.sweep.pack:
        return max(job.sweep.trials, most_trials(search) if search else 0)
    first = job.request.array.size if job.request.array else 1
    if search is None or not job.sweep or not job.sweep.pack or not search.is_adaptive:
        return first
    at_once, pack = job.sweep.at_once, job.sweep.pack
    nodes = sum(
        math.ceil(min(size, at_once or size) / pack.per_node) * times
        for size, times in generation_sizes(search)
    )
    return max(first, nodes if job.request.array else math.ceil(nodes / pack.nodes))


def _limit(job: JobSpec, site: Site) -> Walltime | None:
    """Return how long the job may last: its walltime, else the longest limit of its partitions."""
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


# --- Limits: the most GPU-hours that a job may take, as its file or the user's config says


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
    """Return a hint with the longest allowed walltime, if it is at least a minute."""
    seconds = int(cost.seconds * most / cost.gpu_hours) // 60 * 60
    shorter = f'`batch: {{walltime: "{Walltime(seconds)}"}}` is within it; else ' if seconds else ""
    return f"{shorter}ask for fewer GPUs, or raise it"


# --- What an account has left, as the site's command prints it, compared with the cost of a job

_SECONDS: Final = 5.0
_NUMBER: Final = re.compile(
    r"(-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)"
    r" ?(K|k|M|G|B|T|thousand|million|billion)?(?:h|(?:\s+[^\d\s]\S*)*)"
)
"""A number of the form 1,234.5, what it is multiplied by, and words behind it, such as a unit."""

_TIMES: Final = {
    "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12,
    "thousand": 1e3, "million": 1e6, "billion": 1e9,
}  # fmt: skip
_REST: Final = re.compile(r"(?:[.,]?[0-9]+|[eE][+-]?[0-9]+|[kKMGBT]\b)*")
"""The rest of a number that a pattern matched in part."""

_AMOUNTS: Final[tuple[str, ...]] = ("left", "total", "used")
_CELLS: Final = re.compile(r"\s*\|\s*|\s{2,}|\t")


def ask(balance: Balance, account: str, user: str) -> Command:
    """Return the site's command for this account."""
    names = {"account": account, "user": user}
    return Command(tuple(_filled(word, names) for word in balance.command), timeout=_SECONDS)


def read(balance: Balance, text: str, account: str) -> tuple[Left, ...]:
    """Return what the account has left, in each unit; empty where the output has no such row or number.

    Names of accounts are compared as in Slurm, without regard to capital letters.
    """
    rows = _by_pattern(balance.pattern, text) if balance.pattern else _by_columns(balance.columns, text)
    found: dict[str, Left] = {}
    for row in rows:
        is_own = row.get("account", account).casefold() == account.casefold()
        if is_own and (left := _left(row, row.get("unit") or balance.unit or "")):
            found.setdefault(left.unit, left)
    return (*found.values(),)


def standing(left: Left, cost: Cost | None, account: str) -> str:
    """Compare a job with what is left: ``80 of 500 GPU-hours are left of physics, and it may take 64``."""
    return standing_of(left, cost.in_unit(left.unit) if cost else None, account, "the job")


def standing_of(left: Left, need: float | None, account: str, what: str) -> str:
    """Compare a need with what is left; a need of None is unknown."""
    total = "" if left.total is None else f" of {number(left.total)}"
    text = f"{number(left.amount)}{total} {left.unit} are left of {account or 'the account'}"
    if need is None:
        return text
    more = ", which is more" if need > left.amount else ""
    return f"{text}, and {what} may take {number(need)}{more}"


def _filled(word: str, names: dict[str, str]) -> str:
    """Return the word with the names in braces replaced, once: a value is never read again."""
    return re.sub(r"\{(account|user)\}", lambda found: names[found[1]], word)


def _by_pattern(pattern: str, text: str) -> Iterator[dict[str, str]]:
    for found in re.finditer(pattern, text, re.MULTILINE):
        rests = {name: _REST.match(text, found.end(name)) for name in _AMOUNTS if name in found.groupdict()}
        more = {name: rest[0] for name, rest in rests.items() if rest}
        known = found.groupdict().items()
        yield {name: value + more.get(name, "") for name, value in known if value is not None}


def _by_columns(columns: Mapping[Any, str], text: str) -> Iterator[dict[str, str]]:
    """Yield the rows below the line that has all these heads; cells are divided by ``|`` or two spaces."""
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in _CELLS.split(line.strip().strip("|"))]
        if set(columns.values()) <= set(cells):
            heads = cells
        elif heads and len(cells) == len(heads):
            row = dict(zip(heads, cells, strict=True))
            yield {name: row[head] for name, head in columns.items()}


def _left(row: dict[str, str], unit: str) -> Left | None:
    left, total, used = (_number(row.get(name, "")) for name in _AMOUNTS)
    if left is None and total is not None and used is not None:
        left = total - used
    return None if left is None else Left(left, unit, total)


def _number(text: str) -> float | None:
    """Return the number; None where its form is ambiguous, such as 1.234,5."""
    found = _NUMBER.fullmatch(text.strip())
    return float(found[1].replace(",", "")) * _TIMES.get(found[2] or "", 1.0) if found else None


# --- Other shapes of a job that might start earlier: less time, fewer nodes, another partition

_SHORTEST: Final = 600
"""Seconds; jobs shorter than that start no earlier."""


class JobShape(NamedTuple):
    """An experiment, and how it differs from the one that was asked for."""

    what: str
    experiment: Experiment


def shapes(experiment: Experiment, site: Site, job: JobSpec) -> Iterator[JobShape]:
    """Yield the job as it is, then others, which the site may refuse."""
    yield JobShape("as it is", experiment)
    yield from _shorter(experiment, job)
    yield from _smaller(experiment, job)
    own = {group.site_partition for group in job.placement.groups}
    if len(own) == 1:
        for name in site.partitions:
            if name not in own:
                batch = replace(experiment.batch, partition=name)
                yield JobShape(f"partition {name}", replace(experiment, batch=batch))


def _shorter(experiment: Experiment, job: JobSpec) -> Iterator[JobShape]:
    """Yield half and a quarter of the walltime, in whole minutes."""
    walltime = job.request.walltime
    for part, what in ((2, "half the walltime"), (4, "a quarter of the walltime")):
        seconds = walltime.seconds // part // 60 * 60 if walltime else 0
        if seconds >= _SHORTEST:
            batch = replace(experiment.batch, walltime=Walltime(seconds))
            yield JobShape(what, replace(experiment, batch=batch))


def _smaller(experiment: Experiment, job: JobSpec) -> Iterator[JobShape]:
    """Yield half the replicas, where they are on several nodes and only the workers are counted."""
    replicas, nodes = experiment.environment.replicas, job.placement.nodes
    if nodes < 2 or replicas is None or replicas.n_ps or replicas.evaluator:  # noqa: PLR2004 - has no half
        return
    total = replica_count(experiment)
    workers = total // 2 - (total - replicas.n_workers)
    if workers < 0 or (workers == 0 and total == replicas.n_workers):
        return
    batch = experiment.batch
    if batch.nodes is not None:
        batch = replace(batch, nodes=max(1, batch.nodes // 2))
    environment = replace(experiment.environment, replicas=replace(replicas, n_workers=workers))
    yield JobShape("half the replicas", replace(experiment, environment=environment, batch=batch))

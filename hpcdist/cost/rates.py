"""Rates: what an hour of a job is charged, by what the job has at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import Group
from hpcdist.site.charges import Charge
from hpcdist.site.model import Site
from hpcdist.site.provenance import source_of

_NAMES = {
    "per_node_hour": "node-hour",
    "per_gpu_hour": "GPU-hour",
    "per_cpu_hour": "CPU-hour",
    "per_gib_hour": "GiB-hour",
}


class Amounts(NamedTuple):
    """What a job has at once: nodes, and the GPUs, CPUs and GiB of memory that are not others' meanwhile."""

    nodes: int
    gpus: int
    cpus: int
    gib: float


class Rate(NamedTuple):
    """How many ``unit`` an hour of a job is; ``why``: the rate that comes to most, and its source.

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
    """Return what a job has at once; of nodes that it does not share, all that they have is its own."""
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
    """Return what an hour of the job is charged; None where that of any of its nodes is not known."""
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
    """Yield how many times the rate such a job is charged, and why."""
    qos, partition = job.request.qos, site.partitions.get(group.site_partition or "")
    if (factor := charge.qos.get(qos or "", 1.0)) != 1.0:
        yield factor, f"QOS {qos}"
    if partition and partition.charge_factor != 1.0:
        yield partition.charge_factor, f"partition {group.site_partition}"


def _parts(charge: Charge, amounts: Amounts) -> Sequence[tuple[str, float]]:
    """Return what each rate that is given comes to in an hour, by its key."""
    counts = zip(_NAMES, amounts, strict=True)
    return [(name, rate * count) for name, count in counts if (rate := getattr(charge, name)) is not None]


def _origin(site: Site, key: str) -> str:
    source = source_of(site, key)
    page = f"; {source.where}, read {source.read}" if source else ""
    return f"site {site.name}: {key}{page}"

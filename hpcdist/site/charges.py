"""Charges: what an hour of a job costs its account on a machine."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem

PER_HOUR = ("per_node_hour", "per_gpu_hour", "per_cpu_hour", "per_gib_hour")


class Charge(Model, frozen=True, kw_only=True):
    """What a job is charged; of several rates the one that comes to most applies, as Slurm's ``MAX_TRES``.

    ``unit``: what accounts have, such as ``SU`` or ``GPU-hours``. ``per_node_hour``, ``per_gpu_hour``,
    ``per_cpu_hour`` and ``per_gib_hour``: how many units an hour of a node, a GPU, a CPU or a GiB of memory
    is; GPUs and CPUs are counted as the scheduler does. ``qos``: by QOS, the factor for its jobs.
    """

    unit: str
    per_node_hour: float | None = None
    per_gpu_hour: float | None = None
    per_cpu_hour: float | None = None
    per_gib_hour: float | None = None
    qos: dict[str, float] = {}


def problems_of(charge: Charge, path: Path) -> Iterator[Problem]:
    """Yield the problems of a charge that its types do not exclude."""
    rates = {name: getattr(charge, name) for name in PER_HOUR}
    if all(rate is None for rate in rates.values()):
        yield Problem("a charge needs a rate", path, f"write one of {', '.join(PER_HOUR)}")
    for name, rate in (*rates.items(), *((f"qos.{name}", factor) for name, factor in charge.qos.items())):
        if rate is not None and not 0 <= rate < _MOST:
            yield Problem(f"{rate:g} is out of range", (*path, *name.split(".", 1)), "write a number from 0")


_MOST = 1e9
"""More than any centre charges for an hour of a node."""

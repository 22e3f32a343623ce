"""Measured bandwidths: what `hpcdist sites check --measured` writes into a site file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from hpcdist.documents.fields import Model
from hpcdist.errors import Problem


class Measured(Model, frozen=True, kw_only=True):
    """The bandwidths of the network, as a job of `hpcdist doctor --job` measured them.

    ``library``: mpi, nccl or gloo. ``date``: the day (``YYYY-MM-DD``). ``nodes``: the number of nodes.
    ``pair``: what a node usually reached with another one, each way, in GB/s. ``ring``, ``all_reduce``: of
    all tasks, on the bus, in GB/s, as nccl-tests define it. ``latency``: of small messages, in microseconds.
    ``versions``: of hpcdist, of the library and of the driver.
    """

    library: str
    date: str
    nodes: int
    pair: float
    ring: float | None = None
    all_reduce: float | None = None
    latency: float | None = None
    versions: dict[str, str] = {}


def problems_of(found: Sequence[Measured]) -> Iterator[Problem]:
    """Yield the problems of measured bandwidths that their types do not exclude."""
    for index, one in enumerate(found):
        if not 0 < one.pair < _MOST:
            yield Problem(f"{one.pair:g} is out of range", ("measured", index, "pair"), "write GB/s")
        for name in ("ring", "all_reduce", "latency"):
            value = getattr(one, name)
            if value is not None and not 0 <= value < _MOST:
                hint = "write microseconds" if name == "latency" else "write GB/s"
                yield Problem(f"{value:g} is out of range", ("measured", index, name), hint)
        if not _is_day(one.date):
            hint = "write the day: 2026-11-23"
            yield Problem(f"{one.date!r} is no date", ("measured", index, "date"), hint)


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


_MOST = 1e6
"""GB/s, or microseconds; more than any network has."""

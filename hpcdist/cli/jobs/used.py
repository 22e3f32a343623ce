"""What jobs cost and used, as tables and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import spans
from hpcdist.usage.cost import Cost, total

HEADS: Final = ("queued", "elapsed", "GPU-hours", "CPU-hours", "CPUs busy", "memory")
"""The heads of `cells`."""


def cells(cost: Cost) -> tuple[str, ...]:
    """Return a cost under ``HEADS``; ``-`` is unknown."""
    times = [None if at is None else spans.clock(at) for at in (cost.waited, cost.elapsed)]
    hours = [None if at is None else f"{at / 3600:.2f}" for at in (cost.gpu_seconds, cost.cpu_seconds)]
    share = None if cost.cpu_share is None else f"{cost.cpu_share:.0%}"
    memory = cost.total_memory or cost.max_memory
    found = (*times, *hours, share, None if memory is None else spans.size(memory))
    return tuple("-" if cell is None else cell for cell in found)


def print_costs(costs: Sequence[Cost]) -> None:
    """Print the starts that the batch system accounts for, and of several their sum; without any, nothing."""
    if not any(cost.is_measured for cost in costs):
        return
    rows = [(cost.job, str(cost.start), *cells(cost)) for cost in costs]
    if len(costs) > 1:
        rows.append(("all", "", *cells(total(costs))))
    click.echo()
    show.table(("accounted", "start", *HEADS), rows)


def of_costs(costs: Sequence[Cost]) -> dict[str, Any]:
    """Return the starts and their sum for JSON."""
    starts = [{"job_id": cost.job, "start": cost.start, **of_cost(cost)} for cost in costs]
    return {**of_cost(total(costs)), "starts": starts}


def of_cost(cost: Cost) -> dict[str, Any]:
    """Return a cost for JSON; null is unknown."""
    return {
        "queue_seconds": cost.waited,
        "elapsed_seconds": cost.elapsed,
        "cpus": cost.cpus,
        "gpus": cost.gpus,
        "gpu_hours": _hours(cost.gpu_seconds),
        "cpu_hours_had": _hours(cost.cpu_seconds_had),
        "cpu_hours": _hours(cost.cpu_seconds),
        "cpu_share": cost.cpu_share,
        "max_memory": cost.max_memory,
        "total_memory": cost.total_memory,
        "is_measured": cost.is_measured,
    }


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3600

"""What jobs cost and used, as tables and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from hpcdist.checks.usage import Consumption, NodeUse, Used, hours, hours_text, mean, total
from hpcdist.cli import show

HEADS: Final = ("queued", "elapsed", "GPU-hours", "CPU-hours", "CPUs busy", "memory")
"""The heads of `cells`."""


_MOST_NODES: Final = 16
"""Of more, the table has the first ones; all are in JSON."""


def cells(cost: Consumption) -> tuple[str, ...]:
    """Return a cost under ``HEADS``; ``-`` is unknown."""
    times = [None if at is None else show.clock(at) for at in (cost.waited, cost.elapsed)]
    in_hours = map(hours_text, (cost.gpu_seconds, cost.cpu_seconds))
    share = None if cost.cpu_share is None else f"{cost.cpu_share:.0%}"
    memory = cost.total_memory or cost.max_memory
    found = (*times, *in_hours, share, None if memory is None else show.size(memory))
    return tuple("-" if cell is None else cell for cell in found)


def print_costs(costs: Sequence[Consumption]) -> None:
    """Print the starts that the batch system accounts for, and of several their sum; without any, nothing."""
    if not any(cost.is_measured for cost in costs):
        return
    rows = [(cost.job, str(cost.start), *cells(cost)) for cost in costs]
    if len(costs) > 1:
        rows.append(("all", "", *cells(total(costs))))
    click.echo()
    show.table(("accounted", "start", *HEADS), rows)


def print_used(used: Used) -> None:
    """Print what the accounting has, the use of the GPUs by node, and the advice; only what is known."""
    print_costs(used.costs)
    if used.nodes:
        click.echo()
        heads = ("sampled", "attempt", "host", "GPUs", "used", "idle", "GPU memory", "CPUs busy")
        show.table(heads, map(_row, used.nodes[:_MOST_NODES]))
    if len(used.nodes) > _MOST_NODES:
        click.echo(f"{len(used.nodes) - _MOST_NODES} more nodes: --json has them")
    if used.nodes_left_out:
        click.echo(f"{used.nodes_left_out} more were sampled and not read: these are evenly spaced")
    for found in used.advice:
        click.echo(f"\nadvice: {found.text}; write {found.write}")


def _row(node: NodeUse) -> tuple[str, ...]:
    memory = max((gpu.memory for gpu in node.gpus if gpu.memory is not None), default=None)
    idle = mean((gpu.idle, 1) for gpu in node.gpus)
    attempt = ".".join(map(str, node.attempt))
    return (
        node.job,
        attempt,
        node.host or str(node.node),
        str(len(node.gpus)),
        "-" if node.use is None else f"{node.use:.0f}%",
        "-" if idle is None else f"{idle:.0%}",
        "-" if memory is None else show.size(memory << 20),
        "-" if node.cpu is None else f"{node.cpu:.0f}%",
    )


def of_used(used: Used) -> dict[str, Any]:
    """Return it for JSON; null is unknown."""
    nodes = [
        node._asdict()
        | {"attempt": ".".join(map(str, node.attempt)), "gpus": [gpu._asdict() for gpu in node.gpus]}
        for node in used.nodes
    ]
    return {
        "cost": of_costs(used.costs),
        "gpu_use": nodes,
        "gpu_use_left_out": used.nodes_left_out,
        "advice": [found._asdict() for found in used.advice],
    }


def of_costs(costs: Sequence[Consumption]) -> dict[str, Any]:
    """Return the starts and their sum for JSON."""
    starts = [{"job_id": cost.job, "start": cost.start, **of_cost(cost)} for cost in costs]
    return {**of_cost(total(costs)), "starts": starts}


def of_cost(cost: Consumption) -> dict[str, Any]:
    """Return a cost for JSON; null is unknown."""
    return {
        "queue_seconds": cost.waited,
        "elapsed_seconds": cost.elapsed,
        "cpus": cost.cpus,
        "gpus": cost.gpus,
        "gpu_hours": hours(cost.gpu_seconds),
        "cpu_hours_had": hours(cost.cpu_seconds_had),
        "cpu_hours": hours(cost.cpu_seconds),
        "cpu_share": cost.cpu_share,
        "max_memory": cost.max_memory,
        "total_memory": cost.total_memory,
        "is_measured": cost.is_measured,
    }

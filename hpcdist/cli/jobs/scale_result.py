"""Shared output of scaling studies: their plan with its cost, and their result as tables and for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.messages import note, one_line
from hpcdist.scaling import size_costs, table
from hpcdist.scaling.fits import Fit
from hpcdist.scaling.measured import Measured
from hpcdist.scaling.results import Result, Size
from hpcdist.scaling.size_costs import SizeCost
from hpcdist.units import Walltime

_MOST: Final = 20
"""How many runs that have measured nothing are named."""


def print_plan(found: Sequence[SizeCost]) -> None:
    """Print what each size is, and what all may cost."""
    show.table(
        ("nodes", "tasks", "GPUs", "walltime", "runs", "GPU-hours", "node-hours"),
        [
            (
                *map(str, (size.nodes, size.tasks, size.gpus)),
                str(Walltime(size.each.seconds)) if size.each else "-",
                str(size.runs),
                _hours(size.gpu_hours),
                _hours(size.node_hours),
            )
            for size in found
        ],
    )
    gpu_hours, node_hours = (_hours(size_costs.total(hours)) for hours in _columns(found))
    runs = sum(size.runs for size in found)
    attempts = max((size.each.attempts for size in found if size.each), default=1)
    each = f" of up to {attempts} attempts each" if attempts > 1 else ""
    click.echo(
        f"{runs} run{'s' * (runs > 1)}{each}, at most {gpu_hours} GPU-hours and {node_hours} node-hours"
    )
    if charge := size_costs.charged(found).lines.get("charge"):
        click.echo(f"charge: {charge}")


def _columns(found: Sequence[SizeCost]) -> tuple[list[float | None], list[float | None]]:
    return [size.gpu_hours for size in found], [size.node_hours for size in found]


def _hours(hours: float | None) -> str:
    return "no limit" if hours is None else f"{hours:.4g}"


def plan_data(found: Sequence[SizeCost]) -> list[dict[str, Any]]:
    """Return the plan for JSON; null has no limit."""
    return [
        {
            "nodes": size.nodes,
            "tasks": size.tasks,
            "gpus": size.gpus,
            "walltime_seconds": size.each and size.each.seconds,
            "runs": size.runs,
            "gpu_hours": size.gpu_hours,
            "node_hours": size.node_hours,
            "charge": size.each and size_costs.charged([size]).charge,
            "unit": size.each.rate.unit if size.each and size.each.rate else None,
        }
        for size in found
    ]


def print_result(result: Result) -> None:
    """Print a study: a row for each size, the laws, and what is missing."""
    click.echo(one_line(table.title(result)))
    if result.sizes:
        show.table(table.heads(result), map(table.row, result.sizes))
        for line in table.lines(result):
            click.echo(line)
    for text in islice(result.lost, _MOST):
        note(text)
    for text in islice(result.left_out, _MOST):
        note(f"not measured: {text}")
    if len(result.left_out) > _MOST:
        note(f"not measured: {len(result.left_out) - _MOST} more")


def as_data(result: Result) -> dict[str, Any]:
    """Return a study for JSON."""
    study = result.study
    return {
        "experiment": study.experiment,
        "mode": study.mode,
        "metric": result.metric,
        "cost_unit": result.unit,
        "sizes": [*map(_size_data, result.sizes)],
        "fits": [*map(_fit_data, result.fits)],
        "largest_efficient": result.largest_efficient,
        "runs": [*map(_run_data, result.runs)],
        "not_measured": [*result.left_out],
        "lost": [*result.lost],
    }


def _size_data(size: Size) -> dict[str, Any]:
    spreads = {name: getattr(size, name)._asdict() for name in ("throughput", "speedup", "efficiency")}
    return {
        "nodes": size.nodes,
        "tasks": size.tasks,
        "gpus": size.gpus,
        "runs": size.runs,
        **spreads,
        "communication_share": size.communication,
        "cost_per_1000_steps": size.thousand_steps,
        "cost_per_million": size.million,
    }


def _run_data(run: Measured) -> dict[str, Any]:
    return {
        "run": run.run,
        "nodes": run.member.nodes,
        "repetition": run.member.repetition,
        "state": run.state,
        "throughput": run.throughput,
        "seconds_per_step": run.step,
        "communication_share": run.communication,
        "ranks": run.ranks,
        "ranks_summed": run.summed,
        "ranks_without": [*run.without],
    }


def _fit_data(fit: Fit) -> dict[str, Any]:
    return {
        "law": fit.law,
        "one_node": fit.one_node,
        "parameters": fit.parameters,
        "peak_nodes": fit.peak,
        "residuals": [*_pairs(fit)],
    }


def _pairs(fit: Fit) -> Iterator[dict[str, float]]:
    yield from ({"nodes": nodes, "residual": residual} for nodes, residual in fit.residuals)

"""A study as text: a row for each size, and lines with the laws, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.scaling.fits import Fit
from hpcdist.scaling.results import EFFICIENT, Result, Size, Spread


def title(result: Result) -> str:
    """Return what was studied: ``train: weak scaling, images_per_second``."""
    return f"{result.study.experiment}: {result.study.mode} scaling, {result.metric or 'no metric'}"


def heads(result: Result) -> tuple[str, ...]:
    """Return the names of the columns."""
    names = ("nodes", "tasks", "GPUs", "runs", result.metric, "speed-up", "efficiency")
    return (*names, "communication", f"{result.unit}/1,000 steps", f"{result.unit}/million")


def row(size: Size) -> tuple[str, ...]:
    """Return the cells of a size."""
    return (
        str(size.nodes),
        _number(size.tasks),
        _number(size.gpus),
        str(size.runs),
        _spread(size.throughput, ".4g"),
        _spread(size.speedup, ".2f"),
        _spread(size.efficiency, ".2f"),
        "-" if size.communication is None else f"{size.communication:.0%}",
        _number(size.thousand_steps),
        _number(size.million),
    )


def lines(result: Result) -> Iterator[str]:
    """Yield a line for each law, and one for the largest efficient size."""
    yield from map(_law, result.fits)
    most = result.largest_efficient
    nodes = f"{most} node{'s' * ((most or 0) > 1)}"
    yield f"largest size with an efficiency of at least {EFFICIENT:g}: {nodes}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _spread(spread: Spread, form: str) -> str:
    """Return the median, and the lowest and highest where they differ: ``0.91 (0.89-0.93)``."""
    text = format(spread.median, form)
    if spread.low == spread.high:
        return text
    return f"{text} ({format(spread.low, form)}-{format(spread.high, form)})"


def _law(fit: Fit) -> str:
    parameters = ", ".join(f"{name} {value:.3g}" for name, value in fit.parameters.items())
    peak = f", most throughput at {fit.peak:.0f} nodes" if fit.peak else ""
    exact = " (as many sizes as parameters: they say nothing)" if fit.is_exact else ""
    return f"{fit.law}: {parameters}, one node {fit.one_node:.4g}{peak}; residuals {_residuals(fit)}{exact}"


def _residuals(fit: Fit) -> str:
    """Return the residual of each size that is farthest from the law."""
    worst: dict[int, float] = {}
    for nodes, residual in fit.residuals:
        worst[nodes] = max(residual, worst.get(nodes, 0.0), key=abs)
    return ", ".join(f"{residual:+.1%} ({nodes})" for nodes, residual in sorted(worst.items()))

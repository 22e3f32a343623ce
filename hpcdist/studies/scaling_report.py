"""A scaling study as text, as data, as a plot and as a section of a report."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs.job_states import Report
from hpcdist.studies import scaling_results, scaling_runs
from hpcdist.studies.scaling_runs import Member, Study, StudyRun
from hpcdist.tracking.report import StudyView

# --- As text: a row for each size, and lines with the laws


def title(result: scaling_results.StudyResult) -> str:
    """Return what was studied: ``train: weak scaling, images_per_second``."""
    return f"{result.study.experiment}: {result.study.mode} scaling, {result.metric or 'no metric'}"


def heads(result: scaling_results.StudyResult) -> tuple[str, ...]:
    """Return the names of the columns."""
    names = ("nodes", "tasks", "GPUs", "runs", result.metric, "speed-up", "efficiency")
    return (*names, "communication", f"{result.unit}/1,000 steps", f"{result.unit}/million")


def row(size: scaling_results.SizeResult) -> tuple[str, ...]:
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


def lines(result: scaling_results.StudyResult) -> Iterator[str]:
    """Yield a line for each law, and one for the largest efficient size."""
    yield from map(_law, result.fits)
    most = result.largest_efficient
    nodes = f"{most} node{'s' * ((most or 0) > 1)}"
    yield f"largest size with an efficiency of at least {scaling_results.EFFICIENT:g}: {nodes}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _spread(spread: scaling_results.Spread, form: str) -> str:
    """Return the median, and the lowest and highest where they differ: ``0.91 (0.89-0.93)``."""
    text = format(spread.median, form)
    if spread.low == spread.high:
        return text
    return f"{text} ({format(spread.low, form)}-{format(spread.high, form)})"


def _law(fit: scaling_results.Fit) -> str:
    parameters = ", ".join(f"{name} {value:.3g}" for name, value in fit.parameters.items())
    peak = f", most throughput at {fit.peak:.0f} nodes" if fit.peak else ""
    exact = " (as many sizes as parameters: they say nothing)" if fit.is_exact else ""
    return f"{fit.law}: {parameters}, one node {fit.one_node:.4g}{peak}; residuals {_residuals(fit)}{exact}"


def _residuals(fit: scaling_results.Fit) -> str:
    """Return the residual of each size that is farthest from the law."""
    worst: dict[int, float] = {}
    for nodes, residual in fit.residuals:
        worst[nodes] = max(residual, worst.get(nodes, 0.0), key=abs)
    return ", ".join(f"{residual:+.1%} ({nodes})" for nodes, residual in sorted(worst.items()))


# --- As data, for JSON


def as_data(result: scaling_results.StudyResult) -> dict[str, Any]:
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


def _size_data(size: scaling_results.SizeResult) -> dict[str, Any]:
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


def _run_data(run: scaling_results.RunMeasurement) -> dict[str, Any]:
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


def _fit_data(fit: scaling_results.Fit) -> dict[str, Any]:
    return {
        "law": fit.law,
        "one_node": fit.one_node,
        "parameters": fit.parameters,
        "peak_nodes": fit.peak,
        "residuals": [{"nodes": nodes, "residual": value} for nodes, value in fit.residuals],
    }


# --- The plot: throughput by nodes, both logarithmic, with the ideal line and the laws

_CURVE: Final = 40
"""The number of steps of a curve from the smallest to the largest size."""

_LONGEST: Final = 60
_LINES: Final = (("#888888", "dash"), ("#cc6677", "solid"), ("#228833", "dot"))
"""Colour and dashes of the ideal line and of the laws, which differ without colours as well."""

_BUTTONS: Final = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]]
"""By name: one of the usual buttons sends the data to a server of Plotly."""


def figure(result: scaling_results.StudyResult, shown: Callable[[str], str] = str) -> dict[str, Any] | None:
    """Return the plot for Plotly, as data; None where nothing was measured.

    ``shown``: returns the name of the metric as it may be shown. No name is markup in the plot.
    """
    if not result.sizes:
        return None
    nodes = [size.nodes for size in result.sizes]
    span = [nodes[0] * (nodes[-1] / nodes[0]) ** (step / _CURVE) for step in range(_CURVE + 1)]
    per_node = result.sizes[0].throughput.median / nodes[0]
    curves = {"ideal": [each * per_node for each in span]}
    curves |= {law.law: [scaling_results.throughput_at(law, each) for each in span] for law in result.fits}
    lines = zip(curves.items(), _LINES, strict=False)
    traces = [_trace(name, span, y, *style) for (name, y), style in lines]
    text = "".join(char if char.isprintable() else "?" for char in shown(result.metric)[:_LONGEST])
    return {
        "data": [*traces, _measured_trace(result.sizes)],
        "layout": {
            "height": 400,
            "margin": {"t": 30, "r": 12},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "xaxis": {"type": "log", "title": {"text": "nodes"}, "tickvals": nodes},
            "yaxis": {"type": "log", "title": {"text": html.escape(text)}, "automargin": True},
        },
        "config": {
            "responsive": True,
            "displaylogo": False,
            "typesetMath": False,
            "modeBarButtons": _BUTTONS,
            "plotlyServerURL": "",
            "toImageButtonOptions": {"filename": "scaling", "format": "svg"},
        },
    }


def _trace(name: str, x: Sequence[float], y: Sequence[float], colour: str, dash: str) -> dict[str, Any]:
    line = {"color": colour, "dash": dash}
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line}


def _measured_trace(sizes: Sequence[scaling_results.SizeResult]) -> dict[str, Any]:
    """Return a point for each size, with a bar over its repetitions."""
    found = [size.throughput for size in sizes]
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [each.high - each.median for each in found],
        "arrayminus": [each.median - each.low for each in found],
    }
    points = {"x": [size.nodes for size in sizes], "y": [each.median for each in found], "error_y": bars}
    marker = {"color": "#4477aa", "size": 9}
    return {"type": "scatter", "mode": "markers", "name": "measured", "marker": marker, **points}


def check_plotly() -> None:
    """Check that a plot can be written.

    Raises:
        ConfigError: if Plotly is not installed.
    """
    try:
        import plotly.io  # noqa: F401
    except ImportError:
        hint = "run `pip install 'hpcdist[report]'`"
        raise ConfigError(Problem("a plot needs Plotly, which is not installed", hint=hint)) from None


def plot_page(drawn: Mapping[str, Any]) -> str:
    """Return the plot as a page for a browser, which needs no network.

    Raises:
        ConfigError: as `check_plotly`.
    """
    check_plotly()
    import plotly.io

    return str(plotly.io.to_html(dict(drawn), config=drawn["config"], validate=False))


# --- Studies among the runs of a report

_MOST: Final = 20
"""The most sentences about what is missing."""


def sections(reports: Iterable[Report]) -> Iterator[StudyView]:
    """Yield the studies that these runs belong to, in the order of their first runs."""
    by_token: dict[str, list[tuple[Report, Member]]] = {}
    for report in reports:
        if member := scaling_runs.member_of(report.run):
            by_token.setdefault(member.study.token, []).append((report, member))
    for pairs in by_token.values():
        of = pairs[0][1].study
        try:
            result = scaling_results.study_result(of, _each_once(pairs, of))
        except ConfigError as error:
            yield StudyView(f"{of.experiment}: {of.mode} scaling", lines=[str(error)])
            continue
        if result.sizes:
            rows, texts = [*map(row, result.sizes)], [*lines(result), *result.lost[:_MOST]]
            yield StudyView(title(result), heads(result), rows, texts, partial(figure, result))


def _each_once(pairs: Sequence[tuple[Report, Member]], of: Study) -> list[tuple[Report, Member]]:
    """Return one run of each size and repetition, as `runs_of` chooses it."""
    reports = {report.run.directory: report for report, _ in pairs}
    chosen = scaling_runs.runs_of([StudyRun(report.run, member) for report, member in pairs], of)
    return [(reports[one.run.directory], one.member) for one in chosen]

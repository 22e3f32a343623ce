"""The plot of a study as SVG: throughput by nodes, both logarithmic, with the ideal line and the laws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from hpcdist.scaling import fits
from hpcdist.scaling.results import Result

_WIDTH: Final = 640
_HEIGHT: Final = 400
_LEFT: Final = 80
_RIGHT: Final = 620
_TOP: Final = 20
_BOTTOM: Final = 310
_MEASURED: Final = "#4477aa"
_LINES: Final = (("currentColor", "6 4"), ("#cc6677", ""), ("#228833", ""))
"""Colour and dashes of the ideal line and of the laws; also who sees few colours can tell them apart."""

_STEPS: Final = 40
_LONGEST: Final = 60
_MARGIN: Final = 1.25


class _Axes(NamedTuple):
    """The largest and smallest values that are shown."""

    left: float
    right: float
    low: float
    high: float

    def x(self, nodes: float) -> float:
        """Return the place of a number of nodes."""
        return _LEFT + math.log(nodes / self.left) / math.log(self.right / self.left) * (_RIGHT - _LEFT)

    def y(self, throughput: float) -> float:
        """Return the place of a throughput."""
        share = math.log(throughput / self.low) / math.log(self.high / self.low)
        return _BOTTOM - share * (_BOTTOM - _TOP)


def svg(result: Result) -> str:
    """Return the plot; empty where nothing was measured. It has no scripts, and asks for no other file."""
    if not result.sizes:
        return ""
    first, last = result.sizes[0], result.sizes[-1]
    ideal = first.throughput.median / first.nodes
    values = [value for size in result.sizes for value in size.throughput]
    low, high = min(values), max(*values, ideal * last.nodes)
    axes = _Axes(first.nodes / _MARGIN, last.nodes * _MARGIN, low / _MARGIN, high * _MARGIN)
    span = [first.nodes * (last.nodes / first.nodes) ** (step / _STEPS) for step in range(_STEPS + 1)]
    curves = {"ideal": [(nodes, ideal * nodes) for nodes in span]}
    curves |= {fit.law: [*zip(span, map(partial(fits.at, fit), span), strict=True)] for fit in result.fits}
    title = _shown(f"{result.metric[:_LONGEST]} by nodes, {result.study.mode} scaling")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    lines = (
        f'{head} font-family="sans-serif" font-size="13" fill="currentColor" stroke-width="1.5">',
        f"<title>{title}</title>",
        *_grid(result, axes),
        *(_curve(points, axes, place) for place, points in enumerate(curves.values())),
        *_points(result, axes),
        *_legend([*curves]),
        "</svg>\n",
    )
    return "\n".join(lines)


def _grid(result: Result, axes: _Axes) -> Iterator[str]:
    """Yield the axes: each size, and round throughputs."""
    for size in result.sizes:
        x = axes.x(size.nodes)
        yield _line(x, _TOP, x, _BOTTOM, 'stroke="currentColor" opacity="0.15"')
        yield _text(x, _BOTTOM + 18, str(size.nodes), "middle")
    for value in _round_values(axes.low, axes.high):
        y = axes.y(value)
        yield _line(_LEFT, y, _RIGHT, y, 'stroke="currentColor" opacity="0.15"')
        yield _text(_LEFT - 8, y + 4, f"{value:.4g}", "end")
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 36, "nodes", "middle")
    yield _text(_LEFT, _TOP - 6, result.metric[:_LONGEST], "start")


def _round_values(low: float, high: float) -> list[float]:
    """Return the numbers 1, 2 and 5 of each power of ten, or the powers alone where these are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(powers) <= 4 else (1,)  # noqa: PLR2004 - more lines would touch each other
    values = [digit * 10.0**power for power in powers for digit in digits]
    return [value for value in values if low <= value <= high]


def _curve(points: Sequence[tuple[float, float]], axes: _Axes, place: int) -> str:
    """Return a curve; what would leave the plot is left out."""
    shown = [
        f"{axes.x(nodes):.1f},{axes.y(value):.1f}"
        for nodes, value in points
        if axes.low <= value <= axes.high
    ]
    return f'<polyline points="{" ".join(shown)}" {_style(place)}/>'


def _style(place: int) -> str:
    colour, dashes = _LINES[place]
    return f'fill="none" stroke="{colour}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _points(result: Result, axes: _Axes) -> Iterator[str]:
    """Yield a point for each size, with a bar over its repetitions."""
    for size in result.sizes:
        x, (median, low, high) = axes.x(size.nodes), map(axes.y, size.throughput)
        yield _line(x, low, x, high, f'stroke="{_MEASURED}"')
        yield f'<circle cx="{x:.1f}" cy="{median:.1f}" r="4" fill="{_MEASURED}"/>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    y = _HEIGHT - 20
    yield f'<circle cx="{_LEFT + 12}" cy="{y - 4}" r="4" fill="{_MEASURED}"/>'
    yield _text(_LEFT + 30, y, "measured", "start")
    for place, name in enumerate(names):
        x = _LEFT + 130 * (place + 1)
        yield _line(x, y - 4, x + 24, y - 4, _style(place))
        yield _text(x + 30, y, name, "start")


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_shown(text)}</text>'


def _shown(text: str) -> str:
    """Return a text without markup, and without characters that XML does not have."""
    return escape("".join(char if char.isprintable() else "?" for char in text))

"""The plot of a study: throughput by nodes, both logarithmic, with the ideal line and the laws.

It is marks on a sheet, which ``svg`` and ``png`` write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from xml.sax.saxutils import escape

from hpcdist.errors import ConfigError, Problem
from hpcdist.scaling import fits
from hpcdist.scaling.results import Result

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont


WIDTH: Final = 640
HEIGHT: Final = 400
_LEFT: Final = 80
_RIGHT: Final = 620
_TOP: Final = 20
_BOTTOM: Final = 310
_MEASURED: Final = "#4477aa"
_LINES: Final = (("", True), ("#cc6677", False), ("#228833", False))
"""Colour and dashes of the ideal line and of the laws; also who sees few colours can tell them apart."""

_STEPS: Final = 40
_LONGEST: Final = 60
_MARGIN: Final = 1.25


Point = tuple[float, float]
"""A place on the sheet, from its upper left corner."""


class Line(NamedTuple):
    """Straight lines from point to point; a colour of "" is that of the text."""

    points: tuple[Point, ...]
    colour: str = ""
    is_dashed: bool = False
    is_faint: bool = False


class Dot(NamedTuple):
    """A filled circle of 4 units around a place."""

    at: Point
    colour: str


class Text(NamedTuple):
    """A line of text; its baseline begins, has its middle or ends at a place."""

    at: Point
    text: str
    anchor: Literal["start", "middle", "end"]


Mark = Line | Dot | Text


class Drawing(NamedTuple):
    """A sheet of `WIDTH` by `HEIGHT` units; of what overlaps, the later mark is above."""

    title: str
    marks: tuple[Mark, ...]


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


def drawing(result: Result) -> Drawing | None:
    """Return the plot of a study; None where nothing was measured."""
    if not result.sizes:
        return None
    first, last = result.sizes[0], result.sizes[-1]
    ideal = first.throughput.median / first.nodes
    values = [value for size in result.sizes for value in size.throughput]
    low, high = min(values), max(*values, ideal * last.nodes)
    metric = _shown(result.metric)
    axes = _Axes(first.nodes / _MARGIN, last.nodes * _MARGIN, low / _MARGIN, high * _MARGIN)
    span = [first.nodes * (last.nodes / first.nodes) ** (step / _STEPS) for step in range(_STEPS + 1)]
    curves = {"ideal": [(nodes, ideal * nodes) for nodes in span]}
    curves |= {fit.law: [*zip(span, map(partial(fits.at, fit), span), strict=True)] for fit in result.fits}
    marks = (
        Text((_LEFT, _TOP - 6), metric, "start"),
        *_grid(result, axes),
        *(_curve(points, axes, place) for place, points in enumerate(curves.values())),
        *_points(result, axes),
        *_legend([*curves]),
    )
    return Drawing(f"{metric} by nodes, {result.study.mode} scaling", marks)


def _shown(text: str) -> str:
    """Return the begin of a text, in one line, and without characters that XML does not have."""
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST])


def _grid(result: Result, axes: _Axes) -> Iterator[Mark]:
    """Yield the axes: each size, and round throughputs."""
    for size in result.sizes:
        x = axes.x(size.nodes)
        yield Line(((x, _TOP), (x, _BOTTOM)), is_faint=True)
        yield Text((x, _BOTTOM + 18), str(size.nodes), "middle")
    for value in _round_values(axes.low, axes.high):
        y = axes.y(value)
        yield Line(((_LEFT, y), (_RIGHT, y)), is_faint=True)
        yield Text((_LEFT - 8, y + 4), f"{value:.4g}", "end")
    yield Text(((_LEFT + _RIGHT) / 2, _BOTTOM + 36), "nodes", "middle")


def _round_values(low: float, high: float) -> list[float]:
    """Return the numbers 1, 2 and 5 of each power of ten, or the powers alone where these are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(powers) <= 4 else (1,)  # noqa: PLR2004 - more lines would touch each other
    values = [digit * 10.0**power for power in powers for digit in digits]
    return [value for value in values if low <= value <= high]


def _curve(points: Sequence[tuple[float, float]], axes: _Axes, place: int) -> Line:
    """Return a curve; what would leave the plot is left out."""
    shown = ((axes.x(nodes), axes.y(value)) for nodes, value in points if axes.low <= value <= axes.high)
    return Line(tuple(shown), *_LINES[place])


def _points(result: Result, axes: _Axes) -> Iterator[Mark]:
    """Yield a point for each size, with a bar over its repetitions."""
    for size in result.sizes:
        x, (median, low, high) = axes.x(size.nodes), map(axes.y, size.throughput)
        yield Line(((x, low), (x, high)), _MEASURED)
        yield Dot((x, median), _MEASURED)


def _legend(names: Sequence[str]) -> Iterator[Mark]:
    y = HEIGHT - 20
    yield Dot((_LEFT + 12, y - 4), _MEASURED)
    yield Text((_LEFT + 30, y), "measured", "start")
    for place, name in enumerate(names):
        x = _LEFT + 130 * (place + 1)
        yield Line(((x, y - 4), (x + 24, y - 4)), *_LINES[place])
        yield Text((x + 30, y), name, "start")


# --- A plot as PNG, by Pillow (extra ``plot``): black on white, in the font that Pillow brings along

_SCALE: Final = 2
"""Pixels a unit, as screens of high resolution have."""

_FINE: Final = 4
"""Each pixel is the mean of so many in each direction: Pillow draws lines with hard edges."""

_UNIT: Final = _SCALE * _FINE
_ANCHORS: Final = {"start": "ls", "middle": "ms", "end": "rs"}
_DASH: Final = (6.0, 4.0)


def font() -> FreeTypeFont | ImageFont:
    """Return the font of texts.

    Raises:
        ConfigError: if Pillow is not installed, is older than 10.1, or lacks FreeType.
    """
    try:
        from PIL import ImageFont

        return ImageFont.load_default(13 * _UNIT)
    except (ImportError, TypeError):
        hint = "run `pip install 'hpcdist[plot]'`, or write SVG, to a file named *.svg"
        problem = Problem("PNG needs Pillow 10.1 or newer with FreeType, which is not installed", hint=hint)
        raise ConfigError(problem) from None


def write(drawing: Drawing) -> bytes:
    """Return the plot.

    Raises:
        ConfigError: as `font`.
    """
    letters = font()
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH * _UNIT, HEIGHT * _UNIT), "white")
    draw = ImageDraw.Draw(image)
    for mark in drawing.marks:
        _mark(mark, draw, letters)
    file = BytesIO()
    image.resize((WIDTH * _SCALE, HEIGHT * _SCALE), Image.Resampling.BOX).save(file, "PNG")
    return file.getvalue()


def _mark(mark: Mark, draw: ImageDraw, letters: FreeTypeFont | ImageFont) -> None:
    if isinstance(mark, Line):
        colour = "#d9d9d9" if mark.is_faint else mark.colour or "black"
        for part in _dashes(mark.points) if mark.is_dashed else (mark.points,):
            draw.line([*map(_pixel, part)], colour, round(1.5 * _UNIT), "curve")
    elif isinstance(mark, Dot):
        (x, y), radius = _pixel(mark.at), 4 * _UNIT
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), mark.colour)  # `circle`: 10.4
    else:
        draw.text(_pixel(mark.at), mark.text, "black", letters, _ANCHORS[mark.anchor])


def _pixel(point: Point) -> Point:
    return point[0] * _UNIT, point[1] * _UNIT


def _dashes(points: tuple[Point, ...]) -> Iterator[tuple[Point, Point]]:
    """Yield the parts of a curve that are drawn; a dash and a gap take turns along all of it."""
    begun = 0.0
    for (x1, y1), (x2, y2) in pairwise(points):
        length = math.hypot(x2 - x1, y2 - y1)
        first = math.floor(begun / sum(_DASH))
        for place in range(first, math.ceil((begun + length) / sum(_DASH))):
            since = max(0.0, place * sum(_DASH) - begun)
            until = min(length, place * sum(_DASH) + _DASH[0] - begun)
            if since < until:
                shares = since / length, until / length
                start, end = ((x1 + (x2 - x1) * share, y1 + (y2 - y1) * share) for share in shares)
                yield start, end
        begun += length


# --- A plot as SVG, in the colour of the text around it


def write_svg(drawing: Drawing) -> str:
    """Return the plot; it has no scripts, and asks for no other file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    lines = (
        f'{head} font-family="sans-serif" font-size="13" fill="currentColor" stroke-width="1.5">',
        f"<title>{escape(drawing.title)}</title>",
        *map(_svg_mark, drawing.marks),
        "</svg>\n",
    )
    return "\n".join(lines)


def _svg_mark(mark: Mark) -> str:
    if isinstance(mark, Line):
        style = ' stroke-dasharray="6 4"' * mark.is_dashed + ' opacity="0.15"' * mark.is_faint
        style = f'stroke="{mark.colour or "currentColor"}"{style}'
        return _line(mark.points, style) if len(mark.points) == 2 else _svg_curve(mark.points, style)  # noqa: PLR2004
    x, y = mark.at
    if isinstance(mark, Dot):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{mark.colour}"/>'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{mark.anchor}">{escape(mark.text)}</text>'


def _line(points: Sequence[Point], style: str) -> str:
    (x1, y1), (x2, y2) = points
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _svg_curve(points: Sequence[Point], style: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" {style}/>'

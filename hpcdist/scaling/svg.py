"""A plot as SVG, in the colour of the text around it."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from hpcdist.scaling.plot import HEIGHT, WIDTH, Dot, Drawing, Line, Mark, Point


def write(drawing: Drawing) -> str:
    """Return the plot; it has no scripts, and asks for no other file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    lines = (
        f'{head} font-family="sans-serif" font-size="13" fill="currentColor" stroke-width="1.5">',
        f"<title>{escape(drawing.title)}</title>",
        *map(_mark, drawing.marks),
        "</svg>\n",
    )
    return "\n".join(lines)


def _mark(mark: Mark) -> str:
    if isinstance(mark, Line):
        style = ' stroke-dasharray="6 4"' * mark.is_dashed + ' opacity="0.15"' * mark.is_faint
        style = f'stroke="{mark.colour or "currentColor"}"{style}'
        return _line(mark.points, style) if len(mark.points) == 2 else _curve(mark.points, style)  # noqa: PLR2004
    x, y = mark.at
    if isinstance(mark, Dot):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{mark.colour}"/>'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{mark.anchor}">{escape(mark.text)}</text>'


def _line(points: Sequence[Point], style: str) -> str:
    (x1, y1), (x2, y2) = points
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _curve(points: Sequence[Point], style: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" {style}/>'

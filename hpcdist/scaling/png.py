"""A plot as PNG, by Pillow (extra ``plot``): black on white, in the font that Pillow brings along."""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hpcdist.errors import ConfigError, Problem
from hpcdist.scaling.plot import HEIGHT, WIDTH, Dot, Drawing, Line, Mark, Point

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

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

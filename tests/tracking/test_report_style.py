"""The colours of curves are seen on both backgrounds; axe measures text alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from hpcdist.base.resources import shipped

STYLE: Final = (Path(shipped("templates")) / "report" / "report.css").read_text()
BACKGROUNDS: Final = re.findall(r"--surface: (#[0-9a-f]{6})", STYLE)
COLOURS: Final = re.findall(r"--c[0-9]: (#[0-9a-f]{6})", STYLE)


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_there_are_ten_colours_and_three_backgrounds() -> None:
    assert (len({*COLOURS}), len(COLOURS), len(BACKGROUNDS)) == (10, 10, 3)


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_curve_stands_out(colour: str, background: str) -> None:
    """3 to 1 is what WCAG 2.2 asks of graphics (1.4.11)."""
    low, high = sorted((luminance(colour), luminance(background)))
    assert (high + 0.05) / (low + 0.05) >= 3

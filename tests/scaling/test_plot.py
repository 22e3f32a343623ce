"""The plot of a study, as SVG and as PNG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from hpcdist.scaling import plot, results
from hpcdist.scaling.plot import Dot, Drawing, Line, Text
from hpcdist.scaling.results import Result
from hpcdist.scaling.study import Member
from tests.scaling import made
from tests.scaling.made import STUDY
from tests.scaling.test_results import SPEEDS
from tests.tracking.made_reports import HOSTILE

BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def marks(result: Result) -> Drawing:
    drawing = plot.drawing(result)
    assert drawing
    return drawing


def drawn(result: Result) -> ET.Element:
    return ET.fromstring(plot.write_svg(marks(result)))  # noqa: S314 - our own


def image(*shown: plot.Mark) -> Image.Image:
    return Image.open(BytesIO(plot.write(Drawing("", shown))))


def ink(*shown: plot.Mark) -> tuple[int, int, int, int] | None:
    """Return the box that is not white, in units of the sheet."""
    box = image(*shown).convert("L").point(lambda value: 255 * (value < 255)).getbbox()
    return box and (box[0] // 2, box[1] // 2, -(-box[2] // 2), -(-box[3] // 2))


def test_the_plot_has_the_ideal_line_the_laws_and_each_size(tmp_path: Path) -> None:
    shown = results.result(STUDY, made.study(tmp_path, SPEEDS))
    root = drawn(shown)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        "images_per_second", "1", "2", "4", "100", "200", "500", "nodes",
        "measured", "ideal", "Gustafson", "universal",
    ]  # fmt: skip
    assert len([*root.iter("{http://www.w3.org/2000/svg}polyline")]) == 3
    ideal = next(root.iter("{http://www.w3.org/2000/svg}polyline")).attrib["points"].split()
    [(x1, y1), (x2, y2), *_] = [tuple(map(float, point.split(","))) for point in ideal]
    (x3, y3) = map(float, ideal[-1].split(","))
    assert (y2 - y1) / (x2 - x1) == pytest.approx((y3 - y1) / (x3 - x1), abs=0.02)


def test_a_hostile_name_is_no_markup(tmp_path: Path) -> None:
    for name in HOSTILE:
        member = Member(STUDY, 1, 1)
        found = [(made.run(tmp_path / str(hash(name)), member, {name: [5.0]}), member)]
        root = drawn(results.result(STUDY, found, name))
        assert {each.tag.partition("}")[2] for each in root.iter()} <= {
            "svg", "title", "line", "text", "polyline", "circle"
        }  # fmt: skip


@pytest.mark.extended
def test_the_same_plot_as_png(tmp_path: Path) -> None:
    shown = marks(results.result(STUDY, made.study(tmp_path, SPEEDS)))
    read = Image.open(BytesIO(plot.write(shown)))
    assert (read.format, read.mode, read.size) == ("PNG", "RGB", (2 * plot.WIDTH, 2 * plot.HEIGHT))
    for mark in shown.marks:
        if isinstance(mark, Dot):
            assert read.getpixel((round(2 * mark.at[0]), round(2 * mark.at[1]))) == (0x44, 0x77, 0xAA)
        elif isinstance(mark, Text):
            assert ink(mark), mark.text


def test_texts_of_a_png_begin_end_or_have_their_middle_at_their_place() -> None:
    boxes = [ink(Text((300, 100), "nodes", anchor)) for anchor in ("start", "middle", "end")]
    edges = [(box[0], box[2]) for box in boxes if box]
    assert [300 - left for left, _ in edges] == pytest.approx([0, 18, 36], abs=4)
    assert [right - 300 for _, right in edges] == pytest.approx([36, 18, 0], abs=4)
    assert all(box and 85 < box[1] < box[3] <= 103 for box in boxes)


def test_a_dashed_line_of_a_png_has_gaps_of_one_length() -> None:
    read = image(Line(((100, 50), (103, 50), (200, 50)), is_dashed=True))
    colours = [read.getpixel((2 * x + 1, 100)) for x in range(100, 200)]
    assert [colour == BLACK for colour in colours[1:25]] == [x % 10 < 6 for x in range(1, 25)]
    assert {*colours} <= {BLACK, WHITE} | {(value,) * 3 for value in range(256)}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_be_drawn(tmp_path: Path, name: str) -> None:
    found = [(made.run(tmp_path, Member(STUDY, 1, 1), {name: [5.0]}), Member(STUDY, 1, 1))]
    assert plot.write(marks(results.result(STUDY, found, name))).startswith(b"\x89PNG")

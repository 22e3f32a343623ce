"""The files of wording have the texts of the tests that there are, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wording


def test_no_text_is_left_over(collected: list[str], request: pytest.FixtureRequest) -> None:
    if all("::" not in word for word in request.config.args):  # else only some tests of a file are known
        assert wording.stale(collected) == []


def test_what_is_written_is_read(tmp_path: Path) -> None:
    texts = {"test_a.py::test_x[1]": "exp.yml:1:2: wrong\n\n  # not a head", "a/test_b.py::test_y 2": ""}
    wording.write(tmp_path / "wording.txt", texts)
    assert wording.read(tmp_path / "wording.txt") == texts


def test_each_room_has_one_file() -> None:
    assert wording.place_of("tests/planner/test_rates.py::test_a[b/c]") == (
        wording.TESTS / "planner" / "wording.txt",
        "test_rates.py::test_a[b/c]",
    )

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.cli import show


def test_cells_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("run",), [("a\x1b[2J",), ("b\nc",), ("\u202eevil",), ("\udcff",)])
    assert capsys.readouterr().out.splitlines() == ["run", "a\\x1b[2J", "b\\x0ac", "\\x202eevil", "\\xdcff"]


def test_json_is_utf_8_despite_odd_file_names(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_json([{"path": "/a\udcff", "n": 1, "of": (None, 2.5)}])
    assert json.loads(capsys.readouterr().out) == [{"path": "/a\\udcff", "n": 1, "of": [None, 2.5]}]
    show.as_json([Path("/a").name])
    assert json.loads(capsys.readouterr().out) == ["a"]

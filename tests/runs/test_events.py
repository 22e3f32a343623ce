"""The event log: lines that were written whole."""

from __future__ import annotations

import pytest

from hpcdist.runs.events import Event, read

STARTED = Event("started", "12", 1795373839, "0")


@pytest.mark.parametrize("torn", ["ended 12 1795373840 1", "ended 12 1795373840 143", "ended 12", "\0" * 9])
def test_an_incomplete_line_is_no_end(torn: str) -> None:
    """143 may stand there as 1."""
    assert read(f"started 12 1795373839 0\n{torn}".encode()) == (STARTED,)


def test_lines_that_are_whole() -> None:
    text = b"started 12 1795373839 0\nended 12 1795373840 unknown\n"
    assert read(text) == (STARTED, Event("ended", "12", 1795373840, "unknown"))

"""hpcdist submit on a file system that gets full, at every level of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import disks

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.mark.parametrize("pages", range(0, disks.LEVELS, 2))
def test_a_partial_output_file_is_removed(tmp_path: Path, pages: int) -> None:
    """First the run cannot be written, then its job refuses to run; with room enough both tasks run."""
    found = disks.submit(tmp_path, pages)
    assert found.is_sound, found
    assert found.code == {0: 2, disks.LEVELS - 1: 0}.get(pages, found.code)
    assert "the run cannot be written" in found.err or found.code != 2

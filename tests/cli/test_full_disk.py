"""hpcdist submit on a file system that gets full, at every level of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import disks


@pytest.mark.extended
@pytest.mark.parametrize("kib", [1, 2, 4, 8, 16, 256])
def test_a_run_whose_files_are_cut_short_is_not_submitted(tmp_path: Path, kib: int) -> None:
    """The write comes back as on a full disk; the job's own writes are cut short in ``tests/script``."""
    found = disks.submit_cut(tmp_path, kib)
    assert found.is_sound, found
    assert found.code == (0 if kib == 256 else 2)
    assert ("the run cannot be written" in found.err) == (found.code == 2)


@pytest.mark.real
@pytest.mark.extended
@pytest.mark.parametrize("pages", range(0, disks.LEVELS, 8))
def test_a_partial_output_file_is_removed(tmp_path: Path, pages: int) -> None:
    """First the run cannot be written, then its job refuses to run; with room enough both tasks run."""
    found = disks.submit(tmp_path, pages)
    assert found.is_sound, found
    assert found.code == {0: 2, disks.LEVELS - 1: 0}.get(pages, found.code)
    assert "the run cannot be written" in found.err or found.code != 2

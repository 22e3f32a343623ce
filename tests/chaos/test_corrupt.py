from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import corrupt


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("seed", [1, 2])
def test_a_corrupt_run_is_a_line_of_its_own(work: Path, seed: int) -> None:
    found = corrupt.broken(work, seed, 120)
    assert found.faults == ()
    assert found.corruptions == 120
    assert found.commands > 400

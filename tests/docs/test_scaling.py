"""The experiment of the page on scaling is planned as the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block, keeps_block


def test_the_sizes_and_their_cost_are_as_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path("strong.yml").write_text(block("strong"))
    words = ["scale", "strong.yml", "--nodes", "1,2,4", "--strong", "--repeat", "3", "--dry-run"]
    shown = CliRunner().invoke(main, words)
    assert (shown.exit_code, shown.stderr) == (0, "")
    keeps_block("strong plan", f"$ hpcdist {' '.join(words)}\n{shown.stdout}")

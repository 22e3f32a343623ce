"""The experiment of the page on searches is planned as the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block, keeps_block


def test_the_example_is_planned_as_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path("tune.yml").write_text(block("sweep"))
    words = ["plan", "tune.yml"]
    shown = CliRunner().invoke(main, words)
    assert (shown.exit_code, shown.stderr) == (0, "")
    keeps_block("sweep plan", "\n".join([f"$ hpcdist {' '.join(words)}", *shown.stdout.splitlines()[:2], ""]))

"""The experiment of the page on searches is planned as the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block, keeps_block


@pytest.mark.parametrize(("name", "file", "lines"), [("sweep", "tune.yml", 2), ("packed", "seeds.yml", 3)])
def test_the_example_is_planned_as_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str, lines: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path(file).write_text(block(name))
    words = ["plan", file]
    shown = CliRunner().invoke(main, words)
    assert (shown.exit_code, shown.stderr) == (0, "")
    text = "\n".join([f"$ hpcdist {' '.join(words)}", *shown.stdout.splitlines()[:lines], ""])
    keeps_block(f"{name} plan", text)

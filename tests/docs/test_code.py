"""The experiment of the page on code runs the copy that was made of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block


def test_the_example_runs_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    monkeypatch.setenv("HPCDIST_SITE", "local")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    Path("train.py").write_text("import os; print(os.getcwd())")
    Path("resnet.yml").write_text(block("code"))
    words = ["submit", "resnet.yml", "--wait", "--set", "batch.launcher=processes"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert f"{tmp_path}/runs/resnet-1/code\n" in Path("runs/resnet-1/logs/job.out").read_text()

"""The program of the page on metrics runs as it stands, and is shown as the page shows it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block, keeps_block


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    monkeypatch.delenv("HPCDIST_SITE", raising=False)


def test_a_program_records_and_its_metrics_are_shown() -> None:
    Path("train.py").write_text(block("tracked"))
    batch = "batch: {site: local, launcher: processes}"
    Path("train.yml").write_text(f"run: {{cmd: '{sys.executable} train.py'}}\n{batch}\n")
    assert CliRunner().invoke(main, ["submit", "train.yml", "--wait"]).exit_code == 0
    shown = CliRunner().invoke(main, ["metrics", "train-1"]).stdout
    keeps_block("metrics", f"$ hpcdist metrics train-1\n{shown}")
    shown = CliRunner().invoke(main, ["outputs", "--models"]).stdout
    keeps_block("models", f"$ hpcdist outputs --models\n{shown}")
    assert Path("runs/train-1/outputs/model.pt").read_text() == "weights"


def test_metrics_are_found_in_the_output() -> None:
    Path("exp.yml").write_text(block("tracking"))
    assert CliRunner().invoke(main, ["submit", "exp.yml", "--site", "local", "--wait"]).exit_code == 0
    [found] = json.loads(CliRunner().invoke(main, ["metrics", "exp-1", "--json"]).stdout)
    assert (found["name"], found["last"], found["step"], found["values"]) == ("loss", 0.3, 3, 3)

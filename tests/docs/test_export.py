"""The page on export shows what its commands print; MLflow's is tried with a real server."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block, keeps_block
from tests.tracking.mlflow.servers import served


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the program of the page on metrics."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    monkeypatch.delenv("HPCDIST_SITE", raising=False)
    Path("train.py").write_text(block("tracked"))
    batch = "batch: {site: local, launcher: processes}"
    Path("train.yml").write_text(f"run: {{cmd: '{sys.executable} train.py'}}\n{batch}\n")
    assert CliRunner().invoke(main, ["submit", "train.yml", "--wait"]).exit_code == 0


def _run(command: str) -> str:
    done = CliRunner().invoke(main, shlex.split(command)[1:])
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_files() -> None:
    command = block("exported").partition("\n")[0].removeprefix("$ ")
    keeps_block("exported", f"$ {command}\n{_run(command)}")


@pytest.mark.extended
@pytest.mark.real
def test_mlflow(tmp_path: Path) -> None:
    address = "http://mlflow.example.org:5000"
    command = block("mlflow").partition("\n")[0].removeprefix("$ ")
    with served(tmp_path) as server:
        shown = "".join(f"$ {command}\n{_run(command.replace(address, server.uri))}" for _ in range(2))
        shown = re.sub("run [0-9a-f]{32}", "run RUN", shown.replace(server.uri, address))
    keeps_block("mlflow", shown)

"""The pipelines of the pages: each is checked and planned; `tests/slurm/test_pipelines.py` runs one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import CHECKOUT, block


def test_the_page_has_the_example() -> None:
    assert block("pipeline") == (CHECKOUT / "examples" / "pipeline.yml").read_text()


@pytest.mark.parametrize("name", ["pipeline", "diamond"])
def test_they_can_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.yml").write_text(block(name))
    (tmp_path / "right.yml").write_text(block("right"))
    done = CliRunner().invoke(main, ["check", "runs.yml", "--site", "slurm"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("1 task by srun, 1 node (site slurm)") == 4


def test_the_graph_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "diamond.yml").write_text(block("diamond"))
    (tmp_path / "right.yml").write_text(block("right"))
    planned = CliRunner().invoke(main, ["plan", "diamond.yml", "--site", "slurm"]).stdout.splitlines()
    shown = block("diamond status").splitlines()[1:]
    assert [re.split("  +", line)[:3] for line in shown][1:3] == [
        [*re.split("  +", line)[:2], f"diamond-1-{name}-1"]
        for line, name in zip(planned[1:3], ("prep", "left"), strict=True)
    ]

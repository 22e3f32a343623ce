"""The tutorial about a rank that hangs: its files and the stacks that it shows; Slurm runs the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block


def test_the_experiment_can_be_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hang.py").write_text(block("hanging program"))
    (tmp_path / "hang.yml").write_text(block("hanging"))
    done = CliRunner().invoke(main, ["check", "hang.yml", "--site", "testbed"])
    assert done.exit_code == 0, done.output


def test_the_stacks_are_those_of_the_program() -> None:
    lines = block("hanging program").splitlines()
    found = re.findall(r"(\S+) \(hang\.py:(\d+)\)", block("hanging ranks"))
    assert [(name, lines[int(number) - 1].strip()) for name, number in found] == [
        ("train", "world.allreduce(step)"),
        ("<module>", "train()"),
        ("load_batch", "time.sleep(1)"),
        ("train", "load_batch()"),
        ("<module>", "train()"),
    ]

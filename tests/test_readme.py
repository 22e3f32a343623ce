"""The README is a door: it is short, and its example is what hpcdist prints today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import README, block, keeps_block

INIT = "hpcdist init --site perlmutter --framework pytorch --nodes 4 --account m1234_g -o train.yml"

OTHERS = ["hpcdist", "TorchX", "NeMo-Run", "submitit", "SkyPilot", "ReFrame"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 250


def test_the_example(folder: Path) -> None:
    (folder / "resnet.yml").write_text(block("experiment"))
    keeps_block("plan", printed("plan", "resnet.yml"))
    keeps_block("job", printed("render", "resnet.yml"))


def test_a_first_experiment() -> None:
    keeps_block("init", f"$ {INIT}\n{printed(*INIT.split()[1:])}")


def test_what_other_tools_do_has_its_source() -> None:
    section = README.read_text().partition("\n## Comparison with other tools\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if re.match(r"\| [A-Za-z][A-Za-z-]+ \|", line)]
    assert [row.split(" ")[1] for row in rows] == OTHERS
    for row in rows[1:]:
        assert [cell for cell in row.strip("| ").split(" | ")[1:] if "](https://" not in cell] == []

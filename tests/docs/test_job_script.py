"""The page about job scripts: what becomes of its script, and what `plan` and `check` print of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hpcdist.cli import main
from tests.docs.pages import block, keeps_block

SEVERAL = """\
#!/bin/bash
#SBATCH --nodes=2 --time=01:00:00
srun python prepare.py
srun python train.py
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_script_becomes_the_experiment(folder: Path) -> None:
    (folder / "job.sh").write_text(block("a job script"))
    done = CliRunner().invoke(main, ["import", "job.sh", "--json"])
    assert json.loads(done.stdout)["experiment"] == yaml.safe_load(block("an imported job script"))


def test_a_body_stays_as_it_is(folder: Path) -> None:
    (folder / "job.sh").write_text(SEVERAL)
    done = CliRunner().invoke(main, ["plan", "job.sh", "--site", "slurm"])
    keeps_block("a body that stays", done.stderr)
    assert done.exit_code == 0


def test_each_verb_reads_the_script(folder: Path) -> None:
    (folder / "job.sh").write_text(block("a job script"))
    for verb, *more in (("check",), ("plan",), ("render",), ("explain",), ("submit", "--dry-run")):
        done = CliRunner().invoke(main, [verb, "job.sh", "--site", "slurm", *more])
        assert (verb, done.exit_code) == (verb, 0), done.output


def test_the_lint_is_what_check_prints(folder: Path) -> None:
    (folder / "job.sh").write_text(block("a script with mistakes"))
    done = CliRunner().invoke(main, ["check", "job.sh", "--fix"])
    lines = [line for line in done.stderr.splitlines(keepends=True) if "runs it with" not in line]
    keeps_block("what check finds", "".join(lines))
    assert done.exit_code == 0
    assert (folder / "job.fixed.sh").read_text().splitlines()[3] == "#SBATCH --time=02:00:00"

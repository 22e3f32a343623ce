"""The experiment of the page on scaling is planned as the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.studies import scaling_plan
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


def test_the_param_is_that_of_each_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    (tmp_path / "train.yml").write_text(block("nodes param"))
    found = scaling_plan.plan_sizes(ExperimentOptions(str(tmp_path / "train.yml")), (1, 4))
    assert [(made.plan.placement.nodes, made.plan.identity.command) for _, made in found] == [
        (1, "python train.py --nodes 1 --batch 4096"),
        (4, "python train.py --nodes 4 --batch 1024"),
    ]

"""The page on nodes shows what hpcdist reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from hpcdist.documents import fields, source
from hpcdist.experiment.model import Experiment
from hpcdist.loading.preferences import Config
from tests.docs.pages import block


def test_the_config_is_as_it_is_read() -> None:
    assert fields.build(Config, source.parse(block("nodes config"), "config").data)[1] == []


def test_the_experiment_is_as_it_is_read() -> None:
    data = source.parse("run: {cmd: a.out}\n" + block("nodes batch"), "exp.yml").data
    assert fields.build(Experiment, data)[1] == []


def test_the_program_lets_each_rank_record_its_own_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path("train.py").write_text(block("compute seconds"))
    experiment = {
        "framework": "pytorch",
        "run": {"cmd": f"{sys.executable} train.py"},
        "environment": {"replicas": {"n_workers": 3}},
        "batch": {"site": "local", "launcher": "processes"},
    }
    Path("train.yml").write_text(json.dumps(experiment))
    done = CliRunner().invoke(main, ["submit", "train.yml", "--wait"])
    assert done.exit_code == 0, done.output
    slowness = json.loads(CliRunner().invoke(main, ["describe", "train-1", "--json"]).stdout)["slowness"]
    assert slowness["ranks"] == 4

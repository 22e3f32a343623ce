"""One call from a file to a plan: what it returns, what it raises, and that it prints nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError, PlanError
from hpcdist.base.resources import shipped
from hpcdist.loading.planning import ExperimentOptions, plan_experiment

TASK = """\
framework: pytorch
environment: {replicas: {n_workers: 1}}
run: {cmd: python train.py}
"""
CONFIG = "sites: {nowhere: {account: lab}}\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return that of a machine with nothing on PATH, and a config that warns."""
    (tmp_path / "config.yml").write_text(CONFIG)
    (tmp_path / "train.yml").write_text(TASK)
    return {"PATH": str(tmp_path), "HPCDIST_CONFIG": str(tmp_path / "config.yml")}


def test_plan_with_warnings_and_notes(
    tmp_path: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan_experiment(ExperimentOptions(str(tmp_path / "train.yml")), environment)
    assert made.experiment.name == made.plan.identity.name == "train"
    assert made.summary == "2 tasks by processes, 1 node (site local)"
    assert made.machine.file == shipped("site_configs") / "local.yaml"
    launcher = "there is no mpirun on PATH, so the launcher is processes"
    assert [(item.severity, item.message) for item in made.problems] == [
        ("note", launcher),
        ("warning", "there is no site 'nowhere'"),
    ]
    assert made.warnings == made.problems[1:]
    assert capsys.readouterr() == ("", "")


def test_warnings_precede_the_error(tmp_path: Path, environment: dict[str, str]) -> None:
    options = ExperimentOptions(str(tmp_path / "train.yml"), settings=(("batch.qos", "high"),))
    with pytest.raises(PlanError) as caught:
        plan_experiment(options, environment)
    assert [item.severity for item in caught.value.problems] == ["note", "warning", "error"]
    assert caught.value.problems[-1].place is not None
    options = ExperimentOptions(str(tmp_path / "train.yml"), site="nope")
    with pytest.raises(ConfigError) as other:
        plan_experiment(options, environment)
    assert other.value.problems[-1].message == "there is no site 'nope'"


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("params: {lr: 1}\nrun: {cmd: 'python t.py --lr={{ lr }}'}", []),
        ("params: {lr: 1}\nrun: {cmd: 'python t.py --lr={{ params.lr }}'}", []),
        ("params: {lr: 1}\nenvironment: {env_vars: {LR: '{{ lr }}'}}\nrun: {cmd: a}", []),
        ("params: {lr: 1}\nrun: {cmd: python reads.py}", []),
        ("params: {lr: 1}\nrun: {cmd: python t.py}", ["nothing uses the param 'lr'"]),
        ("params: {lr: 1}\nrun: {cmd: 'python t.py {lr}'}", ["{lr} in the command is not the param"]),
        ("params: {lr: 1}\nrun: {cmd: 'python t.py $lr'}", ["$lr in the command is not the param"]),
        ("params: {lr: 1, b: 2}\nrun: {cmd: 'lr {{ b }}'}", ["nothing uses the param 'lr'"]),
        (
            "params: {lr: [1, 2]}\nrun: {cmd: 'a {{ lr }}'}",
            ["the param 'lr' is a list, and the command gets all of it"],
        ),
        ("params: {lr: [1, 2]}\nrun: {cmd: \"a {{ lr|join(',') }}\"}", []),
    ],
)
def test_params_that_nothing_uses(
    tmp_path: Path, environment: dict[str, str], text: str, unused: list[str]
) -> None:
    (tmp_path / "reads.py").write_text("json.loads(os.environ['POLYAXON_PARAMS'])")
    (tmp_path / "e.yml").write_text(text)
    made = plan_experiment(ExperimentOptions(str(tmp_path / "e.yml"), site="testbed"), environment)
    assert [one.message for one in made.warnings if "param" in one.message] == unused


def test_the_options_that_change_a_file_or_name_other_files() -> None:
    options = ExperimentOptions("a.yml", "lumi", (), (("lr", "1"),), (("name", "b"),), "kubeflow", "c")
    assert options.changes == ["-p", "lr=1", "--set", "name=b", "--from", "kubeflow", "--name", "c"]
    options = ExperimentOptions("a.yml", __file__, ("/sites",))
    assert options.changes == ["--site", __file__, "--site-path", "/sites"]


def test_planning_does_not_import_the_command_line(tmp_path: Path, environment: dict[str, str]) -> None:
    """A program of its own, whose schedulers are imported as far as they are wanted."""
    program = (
        "import os, sys\nfrom hpcdist.loading.planning import ExperimentOptions, plan_experiment\n"
        "print(plan_experiment(ExperimentOptions(sys.argv[1])).summary)\nprint(*sys.modules)"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "train.yml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=environment)
    summary, modules = done.stdout.splitlines()
    assert summary == "2 tasks by processes, 1 node (site local)"
    names = {name for name in modules.split() if name.startswith(("click", "hpcdist.cli", "hpcdist.runs"))}
    assert names == set()
    others = ("slurm", "pbs", "lsf", "flux", "sge")
    assert not {f"hpcdist.schedulers.{name}" for name in others} & set(modules.split())
    assert not {"subprocess", "hpcdist.base.shell", "importlib.metadata"} & set(modules.split())

"""Hydra's own test-suite of launchers, on this machine without a batch system, and what is hpcdist's own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.errors import HydraException
from hydra.test_utils.launcher_common_tests import IntegrationTestSuite, LauncherTestSuite

import hpcdist
from hydra_plugins.hpcdist_launcher import experiment
from tests.docs.pages import block

_LOCAL = ["hydra.launcher.site=local"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("HPCDIST_", "SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.extended
@pytest.mark.parametrize(("launcher_name", "overrides"), [("hpcdist", _LOCAL)])
class TestLauncher(LauncherTestSuite):  # type: ignore[misc] # Hydra is not typed here
    """Sweeps of one and two jobs, groups, overrides, resolvers, and errors."""


@pytest.mark.extended
@pytest.mark.parametrize(
    ("task_launcher_cfg", "extra_flags"), [({}, ["-m", "hydra/launcher=hpcdist", *_LOCAL])]
)
class TestIntegration(IntegrationTestSuite):  # type: ignore[misc] # as above
    """Applications as processes: their names and working directories."""


def multirun(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the application of the docs, whose file has a command of its own, which is not run."""
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf/config.yaml").write_text(block("hydra config"))
    (folder / "train.py").write_text(block("hydra application"))
    (folder / "exp.yml").write_text("run: {cmd: exit 9}\nbatch: {site: local, walltime: 5m}\n")
    argv = [sys.executable, "train.py", "--multirun", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def test_the_application_of_the_docs(folder: Path) -> None:
    done = multirun(folder, "lr=0.1,0.2")
    assert done.returncode == 0, done.stderr
    [run] = hpcdist.find_runs(folder / "runs")
    assert (run.name, [trial.state for trial in run.trials()]) == ("exp-1", ["completed", "completed"])
    assert [run.result(trial=number).return_value for number in (1, 2)] == [0.2, 0.4]
    function = base64.b64decode((run.directory / "call.txt").read_text().split()[1])
    assert function.count(b"HydraContext") == 1, "the application is there once for both jobs"
    [sweep] = (folder / "multirun").glob("*/*")
    assert [(sweep / str(number) / ".hydra/overrides.yaml").read_text() for number in (0, 1)] == [
        "- lr=0.1\n",
        "- lr=0.2\n",
    ]


@pytest.mark.extended
def test_failed_and_killed_jobs_leave_the_others_alone(folder: Path) -> None:
    (folder / "sweeps.py").write_text(SWEEPS)
    done = subprocess.run([sys.executable, "sweeps.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["+do=raise", "FAILED", "ValueError: no"],
        ["+do=die", "FAILED", "JobFailed: sweeps-1/2 is failed: "],
        ["+do=", "COMPLETED", "5"],
    ]


def test_a_file_has_its_nodes_itself(folder: Path) -> None:
    (folder / "exp.yml").write_text("run: {cmd: exit 9}\n")
    with pytest.raises(HydraException, match=r"both an experiment file and nodes: write these in exp\.yml"):
        experiment({"name": "app", "experiment": "exp.yml", "nodes": 2})


def test_options_become_an_experiment() -> None:
    options = {
        "name": "app",
        "framework": "pytorch",
        "nodes": 2,
        "site": "slurm",
        "walltime": "1h",
        "settings": {"batch.qos": "low"},
    }
    script = experiment(options).render()
    found = dict(
        line[10:].split("=", 1)
        for line in script.splitlines()
        if line.startswith("#SBATCH --") and "=" in line
    )
    assert {name: found[name] for name in ("nodes", "time", "qos")} == {
        "nodes": "2",
        "time": "01:00:00",
        "qos": "low",
    }


SWEEPS = """\
import json, os
import hydra
from hydra._internal.hydra import Hydra
from hydra._internal.callbacks import Callbacks
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode


def task(config):
    if config.do == "raise":
        raise ValueError("no")
    if config.do == "die":
        os.abort()
    return 5


made = Hydra.create_main_hydra_file_or_module(
    calling_file=__file__, calling_module=None, config_path=None, job_name="sweeps"
)
words = ["hydra/launcher=hpcdist", "hydra.launcher.site=local"]
config = made.compose_config(config_name=None, overrides=words, run_mode=RunMode.MULTIRUN)
context = HydraContext(config_loader=made.config_loader, callbacks=Callbacks())
launcher = Plugins.instance().instantiate_launcher(context, task, config)
found = []
for result in launcher.launch([["+do=raise"], ["+do=die"], ["+do="]], 0):
    try:
        shown = str(result.return_value)
    except Exception as error:
        shown = f"{type(error).__name__}: {error}"
    found.append([*result.overrides, result.status.name, shown[:33]])
print(json.dumps(found))
"""

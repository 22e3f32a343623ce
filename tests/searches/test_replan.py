"""The recorded experiment of a run, planned once more with changes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.checks import nodes
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.searches import replan
from hpcdist.searches.replan import Changes
from hpcdist.testing import FakeShell
from tests.runs.test_rundir import made

SERVICES = Services(FakeShell([]), without_suspects=nodes.without_suspects)
SITE = """\
name: toy
description: nodes of eight CPUs
scheduler: slurm
launcher: srun
node_types:
  big: {cpus: 8, memory: 16000}
partitions:
  gpu: {nodes: {big: 2000}, max_walltime: 2-00:00:00}
default_partition: gpu
replica: {cpus: 2}
"""
TRAIN = """\
framework: pytorch
params: {lr: 0.1}
environment: {replicas: {n_workers: 7}}
run: {cmd: "python train.py {{ lr }}"}
"""


def recorded(folder: Path, *words: str, text: str = TRAIN) -> Run:
    """Return a run on a site of its own that was submitted with these words; it has eight replicas."""
    folder.mkdir(exist_ok=True)
    (folder / "toy.yaml").write_text(SITE)
    run = made(folder)
    (run.directory.path / "options.json").write_text(json.dumps([*words, "--site", str(folder / "toy.yaml")]))
    (run.directory.path / "experiment.yml").write_text(text)
    return run


def placed(run: Run, **changes: Any) -> tuple[int, int, str]:
    """Return nodes, tasks and the command of a further job."""
    found = replan.plan_run(run, SERVICES, Changes(**changes))
    return found.plan.placement.nodes, found.plan.placement.size, found.experiment.run.command


def test_a_further_job_is_that_of_the_recorded_experiment(tmp_path: Path) -> None:
    run = recorded(tmp_path, "-p", "lr=0.2")
    assert placed(run) == (2, 8, "python train.py 0.2")
    assert placed(run, params=(("lr", "0.3"),)) == (2, 8, "python train.py 0.3")


@pytest.mark.parametrize(("nodes", "tasks"), [(1, 4), (2, 8), (3, 12), (8, 32)])
def test_a_number_of_nodes_has_as_many_replicas_on_each(tmp_path: Path, nodes: int, tasks: int) -> None:
    assert placed(recorded(tmp_path), nodes=nodes)[:2] == (nodes, tasks)


def test_replicas_that_are_unequally_many_on_nodes_need_a_number(tmp_path: Path) -> None:
    run = recorded(tmp_path, "--set", "environment.replicas.n_workers=8")
    assert placed(run)[:2] == (3, 9)
    assert placed(run, nodes=1)[:2] == (1, 3)
    run = recorded(tmp_path / "other", "--set", "environment.replicas.n_workers=4")
    with pytest.raises(ConfigError, match=r"the 5 replicas of .* on 2 nodes cannot be spread over 4 alike"):
        placed(run, nodes=4)


def test_a_master_alone_becomes_workers_with_backend_mpi(tmp_path: Path) -> None:
    resources = "environment: {resources: {cpu: {requests: 8}}}"
    text = f"backend: mpi\nframework: horovod\n{resources}\nrun: {{cmd: python train.py}}\n"
    run = recorded(tmp_path, text=text)
    assert placed(run)[:2] == (1, 1)
    assert placed(run, nodes=4)[:2] == (4, 4)


def test_the_text_is_that_of_the_user(tmp_path: Path) -> None:
    text = f'{TRAIN}# copy of train-1\n# submitted with ["-p", "lr=0.9"]\n'
    run = recorded(tmp_path, text=text)
    assert (replan.text_of(run), placed(run)[2]) == (text, "python train.py 0.1")


def test_a_further_job_does_without_the_nodes_that_are_suspect_now(tmp_path: Path) -> None:
    run = recorded(tmp_path, "--set", "batch.exclude_bad_nodes=true")
    other = made(tmp_path, site="toy").directory.path
    at = int(time.time()) - 3600
    (other / "events").write_text(f"started 7 {at} 0\nlost 7 {at} n1\n")
    found = replan.plan_run(run, SERVICES)
    assert [line.value for line in found.plan.directives if line.flag == "--exclude"] == ["n1"]
    assert [problem.message for problem in found.problems] == [
        f"excluded as suspect: n1 (lost 1h ago in {other.name})"
    ]


BAND = """\
hptuning:
  matrix: {v: {values: [1.10, 0x10, .inf, "1.10", a b, 0.5]}}
  hyperband: {max_iterations: 4, eta: 2, resource: {name: epochs, type: int}, metric: {name: loss}}
run: {cmd: "train data-{{ v }} {{ epochs }}"}
"""


def test_trials_of_later_generations_have_numbers_as_the_file_writes_them(tmp_path: Path) -> None:
    """They may be part of a name, and come from a table that has them as JSON."""
    values = json.loads(json.dumps([1.1, 16, float("inf"), "1.10", "a b", 0.5]))
    found = replan.plan_search(
        recorded(tmp_path, text=BAND), SERVICES, more=[{"v": one, "epochs": 2} for one in values]
    )
    names = ["1.10", "0x10", ".inf", "1.10", "a b", "0.5"]
    assert [trial.command for trial in found.trials] == [f"train data-{name} 2" for name in names]

"""The run of a rehearsal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcdist.errors import ConfigError, PlanError
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.plan.model import ENDS, Rehearsal
from hpcdist.rehearsal import small
from hpcdist.rehearsal.small import Small
from hpcdist.runs.rundir import RunDirectory
from tests.wording import Wording

SITE = """\
name: toy
description: one kind of nodes
scheduler: slurm
launcher: srun
node_types: {big: {cpus: 8, memory: 16000, gpus: 4}}
partitions: {gpu: {nodes: {big: 2000}}}
default_partition: gpu
node_mtbf_hours: 3000
"""


def planned(folder: Path, nodes: int, minutes: int = 10, **data: Any) -> Small:
    (folder / "toy.yaml").write_text(SITE)
    environment = {
        "resources": {"gpu": {"requests": 4}},
        "replicas": {"n_workers": 7, "default_worker": {"resources": {"gpu": {"requests": 4}}}},
        "restart": {"notice": "10m"},
        **data.pop("environment", {}),
    }
    experiment = {"run": {"cmd": "train"}, "framework": "horovod", "environment": environment, **data}
    (folder / "exp.yml").write_text(yaml.safe_dump(experiment))
    options = ExperimentOptions(str(folder / "exp.yml"), site="toy", site_path=(str(folder),))
    return small.plan(options, nodes, minutes, 5)


@pytest.mark.parametrize(("nodes", "there"), [(1, 1), (2, 2), (3, 3), (8, 8), (20, 8)])
def test_it_has_fewer_workers_on_fewer_nodes(tmp_path: Path, nodes: int, there: int) -> None:
    plan = planned(tmp_path, nodes).made.plan
    assert (plan.placement.nodes, plan.placement.size) == (there, 4 * there)


def test_a_number_of_nodes_of_the_file_is_smaller_too(tmp_path: Path) -> None:
    few = {"resources": {"gpu": {"requests": 1}}, "replicas": {"n_workers": 7}}
    plan = planned(tmp_path, 2, environment=few, batch={"nodes": 4}).made.plan
    assert (plan.placement.nodes, plan.placement.size) == (2, 4)


GPU = {"resources": {"gpu": {"requests": 4}}}


def test_an_elastic_training_does_with_as_many_fewer(tmp_path: Path) -> None:
    elastic = {"min_np": 16, "max_np": 32}
    plan = planned(tmp_path, 2, horovod={"elastic": elastic}).made.plan
    words = [word.text for word in plan.words]
    bounds = [words[words.index(option) + 1] for option in ("--min-np", "--max-np")]
    assert (plan.placement.size, bounds) == (8, ["4", "8"])


def test_parameter_servers_are_fewer_too_or_it_is_refused(tmp_path: Path, wording: Wording) -> None:
    replicas = {"n_workers": 3, "n_ps": 2, "default_worker": GPU, "default_ps": GPU}
    data: dict[str, Any] = {"framework": "tensorflow", "environment": {**GPU, "replicas": replicas}}
    assert planned(tmp_path, 3, **data).made.plan.placement.nodes == 3
    with pytest.raises(PlanError) as caught:
        planned(tmp_path, 1, **data)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def test_a_worker_that_is_left_out_may_have_no_entry_of_its_own(tmp_path: Path, wording: Wording) -> None:
    replicas = {"n_workers": 7, "default_worker": GPU, "worker": [{"index": 5, **GPU}]}
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, 2, environment={**GPU, "replicas": replicas})
    wording(str(caught.value).replace(str(tmp_path), "TMP"))
    assert planned(tmp_path, 8, environment={**GPU, "replicas": replicas}).made.plan.placement.nodes == 8


@pytest.mark.parametrize(
    "data", [{}, {"batch": {"requeue": True}}, {"environment": {"restart": {"by": "requeue"}}}]
)
def test_slurm_does_not_begin_it_again(tmp_path: Path, data: dict[str, Any]) -> None:
    flags = {line.flag for line in planned(tmp_path, 8, **data).made.plan.directives}
    assert {"--requeue", "--no-requeue"} & flags == {"--no-requeue"}


def test_the_script_ends_the_attempts_and_no_other_job_follows(tmp_path: Path) -> None:
    found = planned(tmp_path, 2, environment={"restart": {"notice": "10m", "spare_nodes": 1}})
    restarts = found.made.plan.completion.restarts
    assert restarts is not None
    assert (restarts.by, restarts.notice, restarts.spare_nodes) == (None, 600, 0)
    assert restarts.rehearsal == Rehearsal(ends=ENDS, seed=5, nodes=8, node_mtbf_hours=3000)
    assert found.options.changes[:6] == [
        "--set", "batch.walltime=00:22:00",
        "--set", "environment.restart.spare_nodes=0",
        "--set", "batch.requeue=false",
    ]  # fmt: skip


def test_only_ends_after_which_it_starts_again_are_tried(tmp_path: Path) -> None:
    def ends(*on: str) -> tuple[str, ...]:
        restarts = planned(tmp_path, 1, environment={"restart": {"on": [*on]}}).made.plan.completion.restarts
        assert restarts is not None
        assert restarts.rehearsal is not None
        return restarts.rehearsal.ends

    assert ends("timeout", "failure") == ("notice", "write", "node")
    assert ends("preempt") == ("notice",)
    assert ends("node_failure") == ("node",)


def test_a_run_without_a_plan_is_no_rehearsal(tmp_path: Path) -> None:
    for text in (None, "", "{}", '{"completion": {"restarts": null}}', '{"completion": []}'):
        if text is not None:
            (tmp_path / "plan.json").write_text(text)
        with pytest.raises(ConfigError, match="is no rehearsal"):
            small.stored(RunDirectory(tmp_path))

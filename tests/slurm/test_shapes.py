"""Where tasks really land: what a probe prints on the nodes is what `hpcdist plan --json` said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.users import PROBE, User, probes

pytestmark = [pytest.mark.real, pytest.mark.long]


def needs(cpu: int = 1, gpu: int = 0, memory: int = 100) -> dict[str, Any]:
    """What one replica asks for."""
    return {"cpu": {"limits": cpu}, "memory": {"limits": memory}} | ({"gpu": {"limits": gpu}} if gpu else {})


def shape(
    master: dict[str, Any], workers: int = 0, each: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Build an experiment's environment; `more` are further keys of `replicas`."""
    replicas = {"n_workers": workers, "default_worker": {"resources": each or master}, **more}
    return {"resources": master} | ({"replicas": replicas} if workers or more else {})


SHAPES: Mapping[str, dict[str, Any]] = {
    "one-task": shape(needs()),
    "one-task-two-gpus": shape(needs(gpu=2)),
    "two-cpu-tasks": shape(needs(), 1),
    "two-a-node": shape(needs(), 3, per_node=2),
    "four-gpus-one-node": shape(needs(gpu=1), 3),
    "eight-gpus-two-nodes": shape(needs(gpu=1), 7),
    "five-gpus-uneven": shape(needs(gpu=1), 4),
    "replicas-of-two-gpus": shape(needs(gpu=2), 2),
    "replica-never-split": shape(needs(gpu=3), 1),
    "master-without-gpu": shape(needs(cpu=2), 3, needs(gpu=1)),
    "odd-worker-two-gpus": shape(needs(gpu=1), 4, worker=[{"index": 2, "resources": needs(gpu=2)}]),
    "odd-worker-more-cpus": shape(needs(cpu=2), 5, worker=[{"index": 0, "resources": needs(cpu=9)}]),
    "whole-nodes-of-cpus": shape(needs(cpu=16), 3),
    "uneven-cpus": shape(needs(cpu=5), 6),
    "big-master": shape(needs(cpu=12, gpu=2), 4, needs(cpu=2, gpu=1)),
}


def lands_as_planned(user: User, name: str, experiment: dict[str, Any], launcher: str) -> None:
    all_land_as_planned(user, {name: experiment}, launcher)


def all_land_as_planned(
    user: User, experiments: Mapping[str, dict[str, Any]], launcher: str, **batch: Any
) -> None:
    """Submit all before waiting for any of them."""
    planned = {}
    for name, experiment in experiments.items():
        more = {"run": {"cmd": PROBE}, "batch": {"launcher": launcher, **batch}}
        file = user.write(name, experiment | more)
        planned[name] = [placed(record) for record in user.json("plan", file)["tasks"]]
        submitted = user.hpcdist("submit", file)
        assert submitted.returncode == 0, submitted.stderr
    done = user.hpcdist("wait", *(f"{name}-1" for name in experiments))
    logs = {name: user.log(f"{name}-1") for name in experiments}
    assert done.returncode == 0, (done.stderr, logs)
    assert {name: probes(user, f"{name}-1") for name in experiments} == planned, logs


def placed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a probe prints too."""
    unseen = {"cpus", "memory", "processes", "devices", "variables"}
    return {key: value for key, value in record.items() if key not in unseen}


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_shapes(user: User, launcher: str) -> None:
    shapes = {
        name: {"framework": "horovod", "environment": environment} for name, environment in SHAPES.items()
    }
    all_land_as_planned(user, shapes, launcher, exclusive=True)  # a plan counts the GPUs of a node from 0


@pytest.mark.extended
def test_one_task_a_replica_under_pytorch(user: User) -> None:
    environment = shape(needs(gpu=2), 2)
    lands_as_planned(user, "pytorch", {"framework": "pytorch", "environment": environment}, "srun")


PINNING = """\
import os
import horovod.torch as hvd

hvd.init()
gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
print("rank", hvd.rank(), "has", gpus[hvd.local_rank()], flush=True)
"""
"""What Horovod's own pages write, with the numbers of devices in place of devices."""


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "environment", "more"),
    [
        ("one-each", shape(needs(gpu=1), 5), {}),
        ("two-each", shape(needs(gpu=2), 2) | {"processes_per_replica": 1}, {}),
        ("by-task", shape(needs(gpu=1), 5), {"gpus": {"request": "gpus_per_task"}}),
    ],
)
def test_the_device_of_its_local_rank_is_a_tasks_own(
    user: User, name: str, environment: dict[str, Any], more: dict[str, Any]
) -> None:
    (user.directory / "pinning.py").write_text(PINNING)
    site = yaml.safe_load((CHECKOUT / "site_configs" / "testbed.yaml").read_text())
    (user.directory / "site.yaml").write_text(yaml.safe_dump(site | {"name": "site"} | more))
    experiment = {"framework": "horovod", "environment": environment, "batch": {"site": "./site.yaml"}}
    file = user.write(name, experiment | {"run": {"cmd": "python pinning.py"}})
    planned = user.json("plan", file)["tasks"]
    done = user.hpcdist("submit", file, "--wait")
    log = user.log(f"{name}-1")
    assert done.returncode == 0, done.stderr + log
    has = {int(rank): int(gpu) for rank, gpu in re.findall(r"rank (\d+) has (\d+)", log)}
    assert has == {record["rank"]: record["gpus"][0] for record in planned}


@pytest.mark.extended
def test_processes_that_share_a_gpu(user: User) -> None:
    environment = shape(needs(cpu=4, gpu=1), 1) | {"processes_per_replica": 2}
    lands_as_planned(user, "shared", {"framework": "horovod", "environment": environment}, "srun")


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
@pytest.mark.parametrize("workers", [3, 4])
def test_components_on_two_partitions(user: User, launcher: str, workers: int) -> None:
    environment = {
        "resources": needs(cpu=2),
        "node_selector": {"partition": "cpu"},
        "replicas": {
            "n_workers": workers,
            "default_worker": {"resources": needs(gpu=1), "node_selector": {"partition": "v100"}},
        },
    }
    lands_as_planned(user, "het", {"framework": "horovod", "environment": environment}, launcher)


replicas = st.builds(needs, cpu=st.integers(1, 8), gpu=st.integers(0, 2))


@pytest.mark.extended
@settings(max_examples=8)
@given(
    master=replicas,
    worker=replicas,
    odd=replicas,
    workers=st.integers(1, 3),
    framework=st.sampled_from(["horovod", "pytorch"]),
    launcher=st.sampled_from(["srun", "mpirun"]),
)
def test_any_shape(  # noqa: PLR0913, PLR0917 - each is a dimension of the shape
    cluster: Cluster,
    workdir: Path,
    master: dict[str, Any],
    worker: dict[str, Any],
    odd: dict[str, Any],
    workers: int,
    framework: str,
    launcher: str,
) -> None:
    environment = shape(master, workers, worker, worker=[{"index": workers - 1, "resources": odd}])
    user = User(cluster, workdir)
    name = f"any{len(list(workdir.glob('any*.yml')))}"
    experiment = {"framework": framework, "environment": environment}
    checked = user.hpcdist("check", user.write(name, experiment | {"run": {"cmd": PROBE}}))
    assume("nodes, " not in checked.stderr)  # more nodes than the cluster has, and the sentence says so
    lands_as_planned(user, name, experiment, launcher)

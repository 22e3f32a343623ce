"""What a site would take instead, on a machine like Polaris: a debug, a capacity and a large partition."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.experiment.model import Experiment
from hpcdist.plan.placement import Placement
from hpcdist.planner.launcher_choice import launch_request
from hpcdist.planner.partition_choice import select
from hpcdist.site.model import Site
from tests.experiments import environment, experiment, resources, where
from tests.sites import site
from tests.wording import Wording

SITE = site(
    node_types={
        "a100": {"cpus": 64, "memory": 512000, "gpus": 4},
        "cpu": {"cpus": 128, "memory": 256000, "gpus": 0},
    },
    partitions={
        "debug": {"nodes": {"a100": 560}, "max_nodes": 2, "max_walltime": "1h"},
        "prod": {
            "nodes": {"a100": 560}, "min_nodes": 10, "max_nodes": 496, "max_walltime": "24h",
            "limits": [{"nodes": 24, "walltime": "3h"}, {"nodes": 99, "walltime": "6h"}],
        },
        "capacity": {"nodes": {"a100": 560}, "max_nodes": 4, "max_walltime": "72h"},
        "cpu": {"nodes": {"cpu": None}, "min_nodes": 2},
    },
    default_partition="debug",
)  # fmt: skip
GPU = resources(cpu=1, gpu=1)


def selected(exp: Experiment, machine: Site = SITE) -> Placement:
    return select(exp, machine, exp.batch.walltime, where, launch_request(exp))


def training(workers: int, each: dict[str, Any] = GPU, **batch: Any) -> Experiment:
    """Return a training of this many workers beside the master."""
    return experiment(framework="horovod", environment=environment(workers, each=each), batch=batch)


@pytest.mark.parametrize(
    "asked",
    [
        # Nothing takes it: the partition that comes nearest is told of, with the largest that it takes.
        {"workers": 2399, "walltime": "2h"},
        {"workers": 39, "walltime": "100h"},
        {"workers": 39, "walltime": "12h"},
        {"workers": 0, "each": resources(cpu=1, gpu=5)},
        # The file names a partition, and others take it.
        {"workers": 7, "partition": "debug", "walltime": "2h"},
        {"workers": 7, "partition": "prod"},
        {"workers": 15, "partition": "debug"},
        {"workers": 1, "each": resources(cpu=65), "partition": "debug"},
        # It names one, and no other takes it either.
        {"workers": 0, "each": resources(cpu=65), "partition": "debug"},
        {"workers": 19, "walltime": "2h"},
        {"workers": 35, "walltime": "2h"},
    ],
    ids=str,
)
def test_suggested_alternative(asked: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        selected(training(**asked))
    wording(str(caught.value))


PAID = site(
    node_types={"a100": {"gpus": 4}, "h100": {"gpus": 4}, "cpu": {"cpus": 8, "gpus": 0}},
    partitions={
        "a": {"nodes": {"a100": 9}, "max_walltime": "20h"},
        "h": {"nodes": {"h100": 9}, "max_walltime": "100h"},
        "c": {"nodes": {"cpu": 9}, "max_walltime": "1h"},
        "long": {"nodes": {"cpu": 9}, "max_walltime": "2h"},
    },
    account={
        "rules": [
            {"node_types": [kind], "pattern": f".*@{kind}", "hint": f"write NAME@{kind}"}
            for kind in ("a100", "h100", "cpu")
        ]
    },
)


@pytest.mark.parametrize(
    "asked",
    [
        {"account": "me@a100", "partition": "a", "walltime": "30h"},
        {"account": "me", "partition": "a", "walltime": "30h"},
        {"each": resources(cpu=1), "account": "me", "partition": "c", "walltime": "2h"},
        {"each": resources(cpu=1), "account": "me@cpu", "partition": "c", "walltime": "3h"},
    ],
    ids=str,
)
def test_a_hint_names_what_the_account_pays_for_and_no_gpus_for_a_job_without(
    asked: dict[str, Any], wording: Wording
) -> None:
    with pytest.raises(PlanError) as caught:
        selected(training(0, **asked), PAID)
    wording(str(caught.value))


def test_no_suggestion_where_no_number_fits(wording: Wording) -> None:
    machine = site(node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 9}, "min_nodes": 2}})
    with pytest.raises(PlanError) as caught:
        selected(experiment(environment=environment(each=resources(cpu=1))), machine)
    wording(str(caught.value))


def test_workers_with_resources_of_their_own_are_counted_too(wording: Wording) -> None:
    section = environment(12, each=resources(cpu=4))
    section["replicas"]["worker"] = [{"index": 0, "resources": resources(cpu=2)}]
    machine = site(node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 9}}})
    with pytest.raises(PlanError) as caught:
        selected(experiment(framework="mpi", environment=section), machine)
    wording(str(caught.value))


# --- Why this partition


@pytest.mark.parametrize(
    ("asked", "partition"),
    [
        ({"workers": 3}, "debug"),
        ({"workers": 3, "partition": "capacity"}, "capacity"),
        ({"workers": 3, "walltime": "2h"}, "capacity"),
        ({"workers": 15}, "capacity"),
        ({"workers": 1, "each": resources(cpu=65)}, "cpu"),
    ],
    ids=str,
)
def test_reason_for_the_partition(asked: dict[str, Any], partition: str, wording: Wording) -> None:
    (group,) = selected(training(**asked)).groups
    assert group.partition == partition
    wording(group.reason)


def test_reason_for_the_partition_of_a_node_selector(wording: Wording) -> None:
    (group,) = selected(experiment(environment={"node_selector": {"partition": "capacity"}})).groups
    assert group.partition == "capacity"
    wording(group.reason)


def test_reason_for_several_partitions() -> None:
    section = {
        "resources": GPU,
        "replicas": {
            "n_workers": 1, "default_worker": {"resources": GPU},
            "n_ps": 2, "default_ps": {"resources": resources(cpu=100)},
        },
    }  # fmt: skip
    exp = experiment(framework="tensorflow", environment=section)
    assert [(group.partition, group.reason) for group in selected(exp).groups] == [
        ("debug", "the default partition"),
        ("cpu", "these need no GPUs, and leave those of other nodes to the workers"),
    ]


@pytest.mark.parametrize(
    ("machine", "batch", "why"),
    [
        ({}, {}, ""),
        ({}, {"partition": "mine"}, "named by exp.yml batch.partition"),
        ({"partitions": {"p": {"nodes": {"n": 1}}}}, {}, "the only partition"),
        ({"partitions": {"p": {"nodes": {"n": 1}}, "q": {"nodes": {"n": 1}}}}, {}, "the first of the site"),
    ],
)
def test_why_on_smaller_machines(machine: dict[str, Any], batch: dict[str, str], why: str) -> None:
    (group,) = selected(experiment(batch=batch), site(node_types={"n": {"cpus": 1}}, **machine)).groups
    assert group.reason == why


def test_walltimes_without_a_limit_are_long_enough(wording: Wording) -> None:
    machine = site(
        node_types={"n": {"cpus": 1}},
        partitions={"a": {"nodes": {"n": 1}, "max_walltime": "1h"}, "b": {"nodes": {"n": 2}, "min_nodes": 2}},
    )
    with pytest.raises(PlanError) as caught:
        selected(experiment(batch={"walltime": "2h", "partition": "a"}), machine)
    wording(str(caught.value))

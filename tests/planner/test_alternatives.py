# ruff: noqa: E501 - a message is compared as one line
"""What a site would take instead, on a machine like Polaris: a debug, a capacity and a large partition."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.errors import PlanError
from hpcdist.experiment.model import Experiment
from hpcdist.plan.placement import Placement
from hpcdist.planner.launcher_choice import launch_request
from hpcdist.planner.selection import select
from hpcdist.site.model import Site
from tests.experiments import environment, experiment, resources, where
from tests.sites import site

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
    ("exp", "sentence"),
    [
        # Nothing takes it: the partition that comes nearest is told of, with the largest that it takes.
        (
            training(2399, walltime="2h"),
            "environment.replicas: partition prod (a100 nodes) gives a job 496 nodes, 600 are needed (4 tasks a node); the largest that fits: `n_workers: 1983` on prod",
        ),
        (
            training(39, walltime="100h"),
            "batch.walltime: partition prod (a100 nodes) allows 1-00:00:00, 4-04:00:00 requested; the longest is 3-00:00:00 on capacity (up to 4 nodes)",
        ),
        (
            training(39, walltime="12h"),
            "batch.walltime: partition prod (a100 nodes) allows 03:00:00 to a job of 10 nodes, 12:00:00 requested; long enough: prod (100-496 nodes), capacity (up to 4 nodes)",
        ),
        (
            training(0, resources(cpu=1, gpu=5)),
            "environment.resources: partition debug (a100 nodes) has 4 GPUs a node, 5 requested by master; the most is 4 GPUs a node, on debug",
        ),
        # The file names a partition, and others take it.
        (
            training(7, partition="debug", walltime="2h"),
            "batch.walltime: partition debug (a100 nodes) allows 01:00:00, 02:00:00 requested; partition capacity takes it",
        ),
        (
            training(7, partition="prod"),
            "environment.replicas: partition prod (a100 nodes) requires at least 10 nodes, this job needs 2; partitions debug and capacity take it",
        ),
        (
            training(15, partition="debug"),
            "environment.replicas: partition debug (a100 nodes) gives a job 2 nodes, 4 are needed (4 tasks a node); partition capacity takes it",
        ),
        (
            training(1, resources(cpu=65), partition="debug"),
            ("environment.resources: partition debug (a100 nodes) has 64 CPUs a node, 65 requested by master; partition cpu takes it\n"
             "environment.replicas.default_worker.resources: partition debug (a100 nodes) has 64 CPUs a node, 65 requested by worker 0; partition cpu takes it"),
        ),
        # It names one, and no other takes it either.
        (
            training(0, resources(cpu=65), partition="debug"),
            "environment.resources: partition debug (a100 nodes) has 64 CPUs a node, 65 requested by master; such nodes: cpu (from 2 nodes on)",
        ),
        (
            training(19, walltime="2h"),
            "environment.replicas: partition prod (a100 nodes) requires at least 10 nodes, this job needs 5; the largest that fits: `n_workers: 15` on capacity",
        ),
        (
            training(35, walltime="2h"),
            "environment.replicas: partition prod (a100 nodes) requires at least 10 nodes, this job needs 9; the smallest that fits: `n_workers: 36` on prod",
        ),
    ],
)  # fmt: skip
def test_suggested_alternative(exp: Experiment, sentence: str) -> None:
    with pytest.raises(PlanError) as caught:
        selected(exp)
    assert str(caught.value) == sentence


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
    ("exp", "hint"),
    [
        (training(0, account="me@a100", partition="a", walltime="30h"), "the longest is 20:00:00 on a (up to 9 nodes)"),
        (training(0, account="me", partition="a", walltime="30h"), "partition h takes it"),
        (training(0, resources(cpu=1), account="me", partition="c", walltime="2h"), "partition long takes it"),
        (training(0, resources(cpu=1), account="me@cpu", partition="c", walltime="3h"), "the longest is 02:00:00 on long (up to 9 nodes)"),
    ],
)  # fmt: skip
def test_a_hint_names_what_the_account_pays_for_and_no_gpus_for_a_job_without(
    exp: Experiment, hint: str
) -> None:
    with pytest.raises(PlanError) as caught:
        selected(exp, PAID)
    assert [problem.hint for problem in caught.value.problems] == [hint]


def test_no_suggestion_where_no_number_fits() -> None:
    machine = site(node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 9}, "min_nodes": 2}})
    with pytest.raises(PlanError) as caught:
        selected(experiment(environment=environment(each=resources(cpu=1))), machine)
    assert (
        str(caught.value)
        == "environment.replicas: partition p (n nodes) requires at least 2 nodes, this job needs 1"
    )


def test_workers_with_resources_of_their_own_are_counted_too() -> None:
    section = environment(12, each=resources(cpu=4))
    section["replicas"]["worker"] = [{"index": 0, "resources": resources(cpu=2)}]
    machine = site(node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 9}}})
    with pytest.raises(PlanError) as caught:
        selected(experiment(framework="mpi", environment=section), machine)
    assert str(caught.value).endswith("the largest that fits: `n_workers: 8` on p")


# --- Why this partition


@pytest.mark.parametrize(
    ("exp", "partition", "why"),
    [
        (training(3), "debug", "the default partition"),
        (training(3, partition="capacity"), "capacity", "named by exp.yml batch.partition"),
        (
            training(3, walltime="2h"),
            "capacity",
            "the first that fits: partition debug (a100 nodes) allows 01:00:00, 02:00:00 requested",
        ),
        (
            training(15),
            "capacity",
            "the first that fits: partition debug (a100 nodes) gives a job 2 nodes, 4 are needed (4 tasks a node)",
        ),
        (
            training(1, resources(cpu=65)),
            "cpu",
            "the first that fits: partition debug (a100 nodes) has 64 CPUs a node, 65 requested by master",
        ),
        (
            experiment(environment={"node_selector": {"partition": "capacity"}}),
            "capacity",
            "named by node_selector partition: capacity",
        ),
    ],
)  # fmt: skip
def test_reason_for_the_partition(exp: Experiment, partition: str, why: str) -> None:
    (group,) = selected(exp).groups
    assert (group.partition, group.reason) == (partition, why)


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


def test_walltimes_without_a_limit_are_long_enough() -> None:
    machine = site(
        node_types={"n": {"cpus": 1}},
        partitions={"a": {"nodes": {"n": 1}, "max_walltime": "1h"}, "b": {"nodes": {"n": 2}, "min_nodes": 2}},
    )
    with pytest.raises(PlanError) as caught:
        selected(experiment(batch={"walltime": "2h", "partition": "a"}), machine)
    assert caught.value.problems[0].hint == "long enough: b (2 nodes)"

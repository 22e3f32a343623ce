"""The budget of a job is compared with what `plan` shows as its cost."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.cost.worst_case import worst_case
from hpcdist.errors import PlanError
from tests.experiments import environment, experiment, resources
from tests.plans import planned
from tests.sites import site

MACHINE = site(
    node_types={"n": {"cpus": 64, "gpus": 4}, "c": {"cpus": 32}},
    partitions={"p": {"nodes": {"n": 8}, "max_walltime": "3h"}, "cpu": {"nodes": {"c": 8}}},
)
TWO: dict[str, Any] = environment(1, each=resources(cpu=8, gpu=4))
BESIDE = {"cmd": "python train.py", "beside": [{"cmd": "python serve.py", "on": "own_node"}]}
MIXED: dict[str, Any] = {
    "resources": resources(gpu=4),
    "replicas": {
        "n_ps": 1,
        "default_ps": {"node_selector": {"partition": "cpu"}, "resources": resources(cpu=4)},
        "n_workers": 1,
        "default_worker": {"resources": resources(gpu=4)},
    },
}


def limited(keys: dict[str, Any], **batch: Any) -> dict[str, Any]:
    """Return these keys with a walltime of two hours and this of ``batch``."""
    return {"framework": "horovod"} | keys | {"batch": {"walltime": "2h"} | keys.get("batch", {}) | batch}


def refusal(keys: dict[str, Any], budget: float) -> str:
    with pytest.raises(PlanError) as caught:
        planned(MACHINE, **limited(keys, budget=budget))
    [problem] = caught.value.problems
    return str(problem)


@pytest.mark.parametrize(
    ("keys", "hours", "arithmetic"),
    [
        ({"environment": TWO}, 16, "2 nodes with 8 GPUs for 02:00:00"),
        (
            {"environment": TWO, "run": BESIDE, "framework": "pytorch"},
            24,
            "3 nodes with 12 GPUs for 02:00:00",
        ),
        (
            {"environment": TWO | {"restart": {"max": 0, "spare_nodes": 2}}},
            32,
            "4 nodes with 16 GPUs for 02:00:00",
        ),
        ({"environment": MIXED, "framework": "tensorflow"}, 16, "3 nodes with 8 GPUs for 02:00:00"),
        (
            {"environment": TWO | {"restart": {"max": 2}}},
            48,
            "2 nodes with 8 GPUs for 02:00:00, 3 attempts",
        ),
        ({"environment": TWO, "batch": {"array": "1-2"}}, 32, "2 nodes with 8 GPUs for 02:00:00, 2 of them"),
    ],
)
def test_a_job_has_the_budget_that_its_cost_needs(
    keys: dict[str, Any], hours: float, arithmetic: str
) -> None:
    paid = limited(keys, budget=hours)
    cost = worst_case(planned(MACHINE, **paid), experiment(**paid), MACHINE)
    assert cost is not None
    assert (cost.gpu_hours, cost.arithmetic) == (hours, arithmetic)
    assert refusal(keys, hours - 1).startswith(
        f"batch.budget: it may take {hours} GPU-hours, and {hours - 1} are allowed: {arithmetic}; `batch: "
    )


def test_without_a_walltime_the_limit_of_the_partition_counts() -> None:
    keys = {"framework": "horovod", "environment": TWO, "batch": {"partition": "p", "budget": 23}}
    with pytest.raises(PlanError, match="it may take 24 GPU-hours, and 23 are allowed: 2 nodes with 8 GPUs"):
        planned(MACHINE, **keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"environment": environment(each=resources(cpu=1))}, "the job has no GPUs, and takes no GPU-hours"),
        (
            {"environment": TWO, "hptuning": {"matrix": {"lr": {"values": [1, 2]}}}},
            "one trial may take 16 GPU-hours, more than the budget of 9; raise it, or shorten",
        ),
    ],
)
def test_a_budget_that_cannot_be_kept(keys: dict[str, Any], message: str) -> None:
    assert refusal(keys, 9).startswith(f"batch.budget: {message}")


def test_a_trial_without_a_time_limit_has_no_cost() -> None:
    search = {"hptuning": {"matrix": {"lr": {"values": [1, 2]}}}, "batch": {"budget": 9}}
    with pytest.raises(PlanError, match="a trial without a time limit may take any number of GPU-hours"):
        planned(
            site(node_types={"n": {"gpus": 4}}, partitions={"p": {"nodes": {"n": 8}}}),
            **search,
            framework="horovod",
            environment=TWO,
        )

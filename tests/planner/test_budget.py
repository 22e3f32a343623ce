"""The budget of a job is compared with what `plan` shows as its cost."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.planner.worst_case import worst_case
from tests.experiments import environment, experiment, resources
from tests.plans import planned
from tests.sites import site
from tests.wording import Wording

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
    ("keys", "hours"),
    [
        ({"environment": TWO}, 16),
        ({"environment": TWO, "run": BESIDE, "framework": "pytorch"}, 24),
        ({"environment": TWO | {"restart": {"max": 0, "spare_nodes": 2}}}, 32),
        ({"environment": MIXED, "framework": "tensorflow"}, 16),
        ({"environment": TWO | {"restart": {"max": 2}}}, 48),
        ({"environment": TWO, "batch": {"array": "1-2"}}, 32),
    ],
    ids=["two nodes", "a node beside", "spare nodes", "several partitions", "attempts", "an array"],
)
def test_a_job_has_the_budget_that_its_cost_needs(
    keys: dict[str, Any], hours: float, wording: Wording
) -> None:
    paid = limited(keys, budget=hours)
    cost = worst_case(planned(MACHINE, **paid), experiment(**paid), MACHINE)
    assert cost is not None
    assert cost.gpu_hours == hours
    said = refusal(keys, hours - 1)
    assert f"it may take {hours} GPU-hours, and {hours - 1} are allowed: {cost.arithmetic}; " in said
    wording(said)


def test_without_a_walltime_the_limit_of_the_partition_counts(wording: Wording) -> None:
    keys = {"framework": "horovod", "environment": TWO, "batch": {"partition": "p", "budget": 23}}
    with pytest.raises(PlanError) as caught:
        planned(MACHINE, **keys)
    wording(str(caught.value))


@pytest.mark.parametrize(
    "keys",
    [
        {"environment": environment(each=resources(cpu=1))},
        {"environment": TWO, "hptuning": {"matrix": {"lr": {"values": [1, 2]}}}},
    ],
    ids=["no GPUs", "too little for a trial"],
)
def test_a_budget_that_cannot_be_kept(keys: dict[str, Any], wording: Wording) -> None:
    wording(refusal(keys, 9))


def test_a_trial_without_a_time_limit_has_no_cost(wording: Wording) -> None:
    search = {"hptuning": {"matrix": {"lr": {"values": [1, 2]}}}, "batch": {"budget": 9}}
    with pytest.raises(PlanError) as caught:
        planned(
            site(node_types={"n": {"gpus": 4}}, partitions={"p": {"nodes": {"n": 8}}}),
            **search,
            framework="horovod",
            environment=TWO,
        )
    wording(str(caught.value))

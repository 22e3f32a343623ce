"""The most GPU-hours that a file or a user allows."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.errors import PlanError
from tests.experiments import resources
from tests.plans import TESTBED, planned
from tests.sites import site

DAY = {"environment": {"resources": resources(cpu=1, gpu=2)}}


def refusal(**batch: Any) -> str:
    with pytest.raises(PlanError) as caught:
        planned(TESTBED, **DAY, batch=batch)
    [problem] = caught.value.problems
    return str(problem)


def test_a_job_that_may_take_more_is_refused_with_the_arithmetic() -> None:
    assert refusal(max_gpu_hours=20, walltime="24h", array="1-2") == (
        "batch.max_gpu_hours: it may take 96 GPU-hours, and 20 are allowed: 1 node with 2 GPUs for "
        '1-00:00:00, 2 of them; `batch: {walltime: "05:00:00"}` is within it; '
        "else ask for fewer GPUs, or raise it"
    )


def test_a_walltime_of_less_than_a_minute_is_not_proposed() -> None:
    assert refusal(max_gpu_hours=0.01, walltime="24h").endswith(
        "for 1-00:00:00; ask for fewer GPUs, or raise it"
    )


def test_what_nothing_limits_may_take_more() -> None:
    with pytest.raises(PlanError) as caught:
        planned(site(), **DAY, batch={"max_gpu_hours": 20})
    assert str(caught.value.problems[0]) == (
        "batch.max_gpu_hours: a job without a time limit may take more than 20 GPU-hours; "
        "set `batch.walltime`"
    )


def test_what_is_just_within_is_planned() -> None:
    plan = planned(TESTBED, **DAY, batch={"max_gpu_hours": 48, "walltime": "24h"})
    assert plan.placement.nodes == 1

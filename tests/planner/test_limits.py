"""The most GPU-hours that a file or a user allows."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from tests.experiments import resources
from tests.plans import TESTBED, planned
from tests.sites import site
from tests.wording import Wording

DAY = {"environment": {"resources": resources(cpu=1, gpu=2)}}


def refusal(**batch: Any) -> str:
    with pytest.raises(PlanError) as caught:
        planned(TESTBED, **DAY, batch=batch)
    [problem] = caught.value.problems
    return str(problem)


def test_a_job_that_may_take_more_is_refused_with_the_arithmetic(wording: Wording) -> None:
    wording(refusal(max_gpu_hours=20, walltime="24h", array="1-2"))


def test_a_walltime_of_less_than_a_minute_is_not_proposed(wording: Wording) -> None:
    wording(refusal(max_gpu_hours=0.01, walltime="24h"))


def test_what_nothing_limits_may_take_more(wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        planned(site(), **DAY, batch={"max_gpu_hours": 20})
    wording(str(caught.value))


def test_what_is_just_within_is_planned() -> None:
    plan = planned(TESTBED, **DAY, batch={"max_gpu_hours": 48, "walltime": "24h"})
    assert plan.placement.nodes == 1

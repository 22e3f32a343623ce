"""What a study may cost at most, by the walltimes of its jobs."""

from __future__ import annotations

import pytest

from hpcdist.errors import PlanError
from hpcdist.scaling import costs
from hpcdist.scaling.costs import Cost
from hpcdist.units import Walltime

HOUR = Walltime(3600)


def cost(nodes: int, walltime: Walltime | None = HOUR, runs: int = 2) -> Cost:
    seconds = runs * nodes * walltime.seconds if walltime else None
    return Cost(nodes, 4 * nodes, 4 * nodes, walltime, runs, seconds and 4 * seconds, seconds)


def test_the_most_is_allowed_and_more_is_refused() -> None:
    found = [cost(1), cost(2)]
    assert costs.total(each.gpu_seconds for each in found) == 24 * 3600
    costs.check(found, None)
    costs.check(found, 24)
    with pytest.raises(PlanError, match=r"may take 24 GPU-hours, more than --max-gpu-hours 23\.9"):
        costs.check(found, 23.9)


def test_without_a_time_limit_there_is_no_most() -> None:
    costs.check([cost(1), cost(2, None)], None)
    with pytest.raises(
        PlanError, match=r"any number of GPU-hours; set it, such as --set batch\.walltime=10m"
    ):
        costs.check([cost(1), cost(2, None)], 1e9)

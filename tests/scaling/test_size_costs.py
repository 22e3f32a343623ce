"""What a study may cost at most, by the walltimes of its jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.cost.worst_case import Cost
from hpcdist.errors import PlanError
from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from hpcdist.scaling import sizes
from hpcdist.scaling.sizes import SizeCost
from tests.wording import Wording

EXPERIMENT = """version: 1
framework: pytorch
environment: {resources: {gpu: {limits: 4}}, restart: {max: 3, by: BY}}
run: {cmd: python train.py}
batch: {account: m1, walltime: 1h, qos: regular, constraint: gpu}
"""


def cost(nodes: int, seconds: int | None = 3600) -> SizeCost:
    each = None if seconds is None else Cost(nodes, 4 * nodes, 64 * nodes, seconds)
    return SizeCost(nodes, 4 * nodes, 4 * nodes, 2, each)


def test_the_most_is_allowed_and_more_is_refused(wording: Wording) -> None:
    found = [cost(1), cost(2)]
    assert sizes.total(size.gpu_hours for size in found) == 24
    sizes.check(found, None)
    sizes.check(found, 24)
    with pytest.raises(PlanError) as caught:
        sizes.check(found, 23.9)
    wording(str(caught.value))


def test_without_a_time_limit_there_is_no_most(wording: Wording) -> None:
    sizes.check([cost(1), cost(2, None)], None)
    with pytest.raises(PlanError) as caught:
        sizes.check([cost(1), cost(2, None)], 1e9)
    wording(str(caught.value))


@pytest.mark.parametrize("by", ["requeue", "follow"])
def test_every_attempt_counts_whatever_begins_it(by: str, tmp_path: Path) -> None:
    file = tmp_path / "exp.yml"
    file.write_text(EXPERIMENT.replace("BY", by))
    made = plan_experiment(ExperimentOptions(str(file), site="perlmutter"), environment={})
    assert made.cost is not None
    [found] = sizes.of_plans([made], 2)
    assert (found.each, found.node_hours) == (made.cost, 2 * made.cost.node_hours)

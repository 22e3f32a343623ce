from __future__ import annotations

import pytest

from tests.experiments import environment, resources
from tests.plans import LOCAL, WRAPPED, planned, warnings_of, words

BOTH = pytest.mark.parametrize("framework", ["mpi", "chainermn"])


@BOTH
def test_a_task_a_gpu_over_mpi(framework: str) -> None:
    plan = planned(framework=framework, environment=environment(1, each=resources(cpu=8, gpu=2)))
    assert [task.gpus for task in plan.placement.tasks] == [(0,), (1,), (2,), (3,)]
    assert plan.launch.needs_pmi
    assert (words(plan)[-2:], warnings_of(plan)) == (WRAPPED, ())


@BOTH
def test_the_launcher_gives_it_all(framework: str) -> None:
    plan, plain = planned(framework=framework), planned()
    names = {item.name for item in plan.environment.variables}
    assert names == {item.name for item in plain.environment.variables}
    assert plan.environment.task_variables == plain.environment.task_variables


@BOTH
def test_one_task_needs_no_pmi(framework: str) -> None:
    assert not planned(framework=framework).launch.needs_pmi
    assert not planned(
        LOCAL, framework=framework, environment=environment(1)
    ).launch.needs_pmi  # mpirun has none

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.plan.values import Origin, Variable
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, warnings_of, words
from tests.tasks import told

ORIGIN = Origin("framework", "accelerate")
ON_CPUS = (
    "these tasks have no GPUs: `Accelerator()` meets the others, but a program that calls `PartialState()` "
    "first trains alone; write `PartialState(cpu=True)` there"
)


def test_a_process_a_gpu_with_the_variables_of_pytorch(tmp_path: Path) -> None:
    plan = planned(framework="accelerate", environment=environment(1, each=resources(cpu=8, gpu=2)))
    names = ("MASTER_ADDR", "WORLD_SIZE", "RANK", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES")
    seen = [[variables.get(name) for name in names] for variables in told(plan, tmp_path)]
    assert [own[:4] for own in seen] == [["node0", "4", str(rank), str(rank)] for rank in range(4)]
    assert len({own[4] for own in seen}) == 1  # all see all
    assert (words(plan)[-2:], warnings_of(plan)) == (WRAPPED, ())
    assert not [item for item in plan.environment.variables if item.name == "ACCELERATE_USE_CPU"]


@pytest.mark.parametrize(("workers", "said"), [(0, ()), (1, (ON_CPUS,))])
def test_cpu_jobs_set_accelerate_use_cpu(workers: int, said: tuple[str, ...]) -> None:
    plan = planned(framework="accelerate", environment=environment(workers))
    assert Variable(name="ACCELERATE_USE_CPU", value="true", origin=ORIGIN) in plan.environment.variables
    assert warnings_of(plan) == said

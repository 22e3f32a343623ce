"""Scripts that import Lightning or Accelerate where nobody tells their processes their place, or launch."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.planner.script_advice import advice, script_of
from tests.experiments import environment, resources
from tests.plans import planned
from tests.wording import Wording

LIGHTNING = "import lightning as L\n"
ACCELERATE = '"""Trains."""\n\nfrom accelerate import Accelerator\n'


def said(text: str, workers: int = 1, **data: Any) -> list[str]:
    plan = planned(**data, environment=environment(workers, each=resources(cpu=4, gpu=4)))
    return list(advice(plan, "t.py", text))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --lr 0.1", "train.py"),
        ("cd x && A=1 python3.11 -u src/train.py", "src/train.py"),
        ("pip list\npython train.py", "train.py"),
        ("python -m train x.py", ""),
        ("python /opt/train.py", ""),
        ("python $SCRIPT.py", ""),
        ("python -c 'x.py'", ""),
        ("./train.py", "./train.py"),
        ("bash run.sh 3", "run.sh"),
        ("cd x; sh -e scripts/run.sh", "scripts/run.sh"),
        ("./run.sh", "./run.sh"),
        ("bash -c 'run'", ""),
        ("train", ""),
    ],
)
def test_the_script_of_a_command(command: str, script: str) -> None:
    assert script_of(command) == script


@pytest.mark.parametrize(
    "text",
    [
        LIGHTNING,
        "from lightning.fabric import Fabric",
        "import pytorch_lightning as pl",
        "try:\n    import lightning_fabric\nexcept ImportError: pass",
        ACCELERATE,
    ],
)
def test_library_without_rank_variables_warns(text: str, wording: Wording) -> None:
    wording(said(text, framework="mpi"))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (LIGHTNING, {"framework": "lightning"}),
        (ACCELERATE, {"framework": "accelerate"}),
        (ACCELERATE, {"framework": "pytorch", "pytorch": {"launch": "env"}}),
        (ACCELERATE, {"framework": "deepspeed"}),
        (LIGHTNING, {"framework": "pytorch", "run": {"cmd": "torchrun t.py"}}),
        (LIGHTNING, {"framework": "mpi", "run": {"cmd": "mpirun python t.py"}}),
        ("# import lightning\nimport accelerated\nx = 'import accelerate'\n", {"framework": "mpi"}),
    ],
)
def test_no_warning_where_rank_variables_are_set(text: str, data: dict[str, Any]) -> None:
    assert said(text, **data) == []


def test_one_process_with_several_gpus(wording: Wording) -> None:
    wording(said(ACCELERATE, workers=0))
    assert said(LIGHTNING, workers=0) == []  # which starts a process a GPU itself


def test_a_shell_script_that_launches(wording: Wording) -> None:
    plan = planned(framework="mpi", environment=environment(1, each=resources(cpu=4, gpu=4)))
    wording(advice(plan, "run.sh", "set -e\nmpirun -np 8 python t.py\n"))
    for text in ("torchrun --node_rank $RANK t.py", "python t.py", "# mpirun x"):
        assert list(advice(plan, "run.sh", text)) == []
    alone = planned(environment=environment(each=resources(cpu=4)))
    assert list(advice(alone, "run.sh", "mpirun -np 4 python t.py")) == []

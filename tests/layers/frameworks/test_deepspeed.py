from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.plan.placeholders import HEAD_ADDRESS, PORT, template
from hpcdist.plan.values import Origin, Variable
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, warnings_of, words
from tests.tasks import told

ORIGIN = Origin("framework", "deepspeed")


def test_a_process_a_gpu_with_the_variables_of_pytorch(tmp_path: Path) -> None:
    plan = planned(framework="deepspeed", environment=environment(2, each=resources(cpu=8, gpu=2)))
    names = (
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
    )
    assert [[variables[name] for name in names] for variables in told(plan, tmp_path)] == [
        ["node0", "20000", "6", "0", "0", "4", "0"],
        ["node0", "20000", "6", "1", "1", "4", "0"],
        ["node0", "20000", "6", "2", "2", "4", "0"],
        ["node0", "20000", "6", "3", "3", "4", "0"],
        ["node0", "20000", "6", "4", "0", "2", "1"],
        ["node0", "20000", "6", "5", "1", "2", "1"],
    ]
    assert [task.gpus for task in plan.placement.tasks] == [(0,), (1,), (2,), (3,), (0,), (1,)]
    assert (words(plan)[-2:], warnings_of(plan)) == (WRAPPED, ())


def test_origins_of_variables() -> None:
    plan = planned(framework="deepspeed")
    own = [
        item for item in plan.environment.variables if item.origin == ORIGIN or "interface" in item.origin.key
    ]
    assert own == [
        Variable.filled("MASTER_ADDR", template(HEAD_ADDRESS), ORIGIN),
        Variable.filled("MASTER_PORT", template(PORT), ORIGIN),
        Variable(
            name="GLOO_SOCKET_IFNAME", value="eth0", origin=Origin("site", "testbed", "fabric.interface")
        ),
    ]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("deepspeed", ()),
        (
            "srun",
            (
                (
                    "run.cmd: the tasks that the command starts do not get WORLD_SIZE, RANK, "
                    "LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK; let the command be the program itself, and "
                    "hpcdist starts it"
                ),
            ),
        ),
    ],
)
def test_its_own_launcher_tells_the_processes_their_place(program: str, said: tuple[str, ...]) -> None:
    run = {"cmd": f"{program} train.py"}
    plan = planned(framework="deepspeed", run=run, environment=environment(1, each=resources(gpu=2)))
    assert warnings_of(plan) == said

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcdist.plan.model import Plan
from hpcdist.plan.placeholders import HEAD_ADDRESS, JOB_ID, PORT, template
from hpcdist.plan.values import Origin, Variable
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, warnings_of, words
from tests.sites import site_named
from tests.tasks import told

ORIGIN = Origin("framework", "lightning")
NAMES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "GROUP_RANK",
    "PL_TRAINER_NUM_NODES",
    "PL_TRAINER_DEVICES",
    "LT_NUM_NODES",
    "LT_DEVICES",
)
ALONE = (
    "Lightning knows only nodes with equal numbers of devices, each a task's own, and this plan has others: "
    "each task gets the variables of a separate node, so the program must not set `devices` or `num_nodes` "
    "itself, and each task runs `prepare_data`"
)
OWN = (
    "Lightning counts the devices of a whole node, and {} shows each task only its own: each task gets "
    "the variables of a separate node, so the program must not set `devices` or `num_nodes` itself, and "
    "each task runs `prepare_data`"
)


def place_of_each(plan: Plan, folder: Path) -> list[list[str]]:
    return [[variables[name] for name in NAMES] for variables in told(plan, folder)]


@pytest.mark.parametrize("each", [resources(cpu=4), resources(cpu=4, gpu=1)])
def test_nodes_and_devices_where_all_nodes_are_alike(tmp_path: Path, each: dict[str, Any]) -> None:
    plan = planned(framework="lightning", environment=environment(5, each=each))
    assert place_of_each(plan, tmp_path) == [
        [str(rank), "6", str(rank % 3), str(rank // 3), "2", "3", "2", "3"] for rank in range(6)
    ]
    assert (words(plan)[-2:], warnings_of(plan)) == (WRAPPED, ())


def test_each_task_is_a_node_where_they_are_not(tmp_path: Path) -> None:
    plan = planned(framework="lightning", environment=environment(4, each=resources(cpu=4)))
    assert place_of_each(plan, tmp_path) == [
        [str(rank), "5", "0", str(rank), "5", "1", "5", "1"] for rank in range(5)
    ]
    assert warnings_of(plan) == (ALONE,)


@pytest.mark.parametrize(
    ("data", "devices"),
    [
        ({"environment": environment(4, each=resources(cpu=4, gpu=1))}, ["0,", "1,", "2,", "0,", "1,"]),
        (  # its own alone
            {
                "batch": {"gpu_visibility": "task"},
                "environment": environment(1, each=resources(cpu=4, gpu=1)),
            },
            ["0,", "0,"],
        ),
    ],
)
def test_its_own_device_where_it_is_not_that_of_its_number(
    tmp_path: Path, data: dict[str, Any], devices: list[str]
) -> None:
    plan = planned(framework="lightning", **data)
    assert [(own[2], own[5], own[7]) for own in place_of_each(plan, tmp_path)] == [
        ("0", device, device) for device in devices
    ]
    assert warnings_of(plan) == (OWN.format("`batch.gpu_visibility: task`") if "batch" in data else ALONE,)


def test_launchers_that_show_each_task_its_own_gpus_are_the_reason() -> None:
    plan = planned(
        site_named("summit-like"),
        framework="lightning",
        environment=environment(5, each=resources(cpu=7, gpu=1)),
        batch={"account": "abc", "walltime": "1h"},
    )
    assert [text for text in warnings_of(plan) if "Lightning" in text] == [OWN.format("jsrun")]


def test_origins_of_variables() -> None:
    plan = planned(framework="lightning", environment=environment(1))
    assert [
        item for item in plan.environment.variables if item.origin == ORIGIN or "interface" in item.origin.key
    ] == [
        Variable.filled("MASTER_ADDR", template(HEAD_ADDRESS), ORIGIN),
        Variable.filled("MASTER_PORT", template(PORT), ORIGIN),
        Variable(
            name="GLOO_SOCKET_IFNAME", value="eth0", origin=Origin("site", "testbed", "fabric.interface")
        ),
        Variable.filled("TORCHELASTIC_RUN_ID", template(JOB_ID), ORIGIN),
        Variable(name="PL_TRAINER_STRATEGY", value="ddp", origin=ORIGIN),
    ]


def test_one_process_is_left_the_strategy_of_one() -> None:
    names = [item.name for item in planned(framework="lightning").environment.variables]
    assert "PL_TRAINER_STRATEGY" not in names


@pytest.mark.parametrize(
    "command", ["srun python t.py", "torchrun --nproc-per-node 2 t.py", "fabric run t.py"]
)
def test_a_launch_tells_its_processes_itself(command: str) -> None:
    plan = planned(framework="lightning", run={"cmd": command}, environment=environment(1))
    names = {
        item.name
        for item in (*plan.environment.variables, *plan.environment.task_variables)
        if item.origin == ORIGIN
    }
    assert not [name for name in names if name.startswith(("PL_", "LT_", "TORCHELASTIC", "GROUP"))]

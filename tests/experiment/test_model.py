from __future__ import annotations

import subprocess
from typing import Any

import pytest
from msgspec.structs import replace

from hpcdist.base import fields
from hpcdist.base.units import Memory
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import Replica, blocks
from tests.wording import Wording


def built(**data: Any) -> Experiment:
    experiment, problems = fields.build(Experiment, {"run": {"cmd": "true"}, **data})
    assert problems == []
    assert experiment is not None
    return experiment


def replicas(experiment: Experiment, *, per_gpu: bool) -> list[Replica]:
    """Return every replica, each of its own."""
    return [
        replace(block.first, index=block.first.index + offset)
        for block in blocks(experiment, per_gpu=per_gpu)
        for offset in range(block.count)
    ]


def gpus(count: float) -> dict[str, object]:
    return {"gpu": {"limits": count}}


def test_command_only_is_one_replica() -> None:
    assert replicas(built(), per_gpu=False) == [
        Replica("master", 0, tasks=1, gpus=0, cpus=None, memory=None, node_selector=(), path=("environment",))
    ]


def test_replicas_come_in_rank_order_with_their_own_resources() -> None:
    environment = {
        "resources": {"cpu": {"requests": 1.5}, "memory": {"requests": 100, "limits": "1G"}, **gpus(1)},
        "replicas": {
            "n_workers": 4,
            "n_ps": 1,
            "default_worker": {"resources": gpus(2), "node_selector": {"disk": "ssd"}},
            "worker": [
                {"index": 1, "resources": gpus(4)},
                {"index": 2, "node_selector": {"disk": "hdd"}},
                {"index": 3, "resources": gpus(1), "node_selector": {"disk": "hdd"}},
            ],
        },
    }
    base = ("environment", "replicas")
    usual = (*base, "default_worker")
    ssd, hdd = ((("disk", "ssd"),), (*usual, "node_selector")), (("disk", "hdd"),)
    assert replicas(built(framework="tensorflow", environment=environment), per_gpu=False) == [
        Replica("master", 0, 1, 1, 2, Memory(1024), (), ("environment", "resources")),
        Replica("worker", 0, 1, 2, None, None, ssd[0], (*usual, "resources"), ssd[1]),
        Replica("worker", 1, 1, 4, None, None, ssd[0], (*base, "worker", 0, "resources"), ssd[1]),
        Replica(
            "worker", 2, 1, 2, None, None, hdd, (*usual, "resources"), (*base, "worker", 1, "node_selector")
        ),
        Replica(
            "worker",
            3,
            1,
            1,
            None,
            None,
            hdd,
            (*base, "worker", 2, "resources"),
            (*base, "worker", 2, "node_selector"),
        ),
        Replica("ps", 0, 1, 0, None, None, (), ()),
    ]


def test_equal_replicas_are_one_block_however_many_there_are() -> None:
    section = {
        "n_workers": 1_000_000,
        "default_worker": {"resources": gpus(1)},
        "worker": [{"index": 10}, {"index": 500_000, "resources": gpus(2)}],
    }
    found = blocks(built(framework="mpi", environment={"replicas": section}), per_gpu=True)
    assert [(block.first.name, block.first.gpus, block.count) for block in found] == [
        ("master", 0, 1), ("worker 0", 1, 500_000), ("worker 500000", 2, 1), ("worker 500001", 1, 499_999)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("per_gpu", "processes", "tasks"), [(True, None, 4), (False, None, 1), (False, 3, 3), (True, 2, 2)]
)
def test_tasks_of_a_replica_with_four_gpus(*, per_gpu: bool, processes: int | None, tasks: int) -> None:
    environment = {"resources": gpus(4), "processes_per_replica": processes}
    (master,) = replicas(built(environment=environment), per_gpu=per_gpu)
    assert master.tasks == tasks


def test_an_evaluator_comes_last() -> None:
    section = {"n_workers": 1, "n_ps": 1, "evaluator": {"resources": gpus(1)}}
    found = replicas(built(environment={"replicas": section}), per_gpu=False)
    assert [(replica.name, replica.gpus) for replica in found] == [
        ("master", 0), ("worker 0", 0), ("ps 0", 0), ("evaluator 0", 1)
    ]  # fmt: skip


def test_backend_mpi_has_no_master() -> None:
    environment = {"replicas": {"n_workers": 2}}
    names = [
        replica.name for replica in replicas(built(backend="mpi", environment=environment), per_gpu=False)
    ]
    assert names == ["worker 0", "worker 1"]


@pytest.mark.parametrize(
    ("cmd", "command"),
    [("a  b\n", "a  b\n"), (["a", "b 'c'"], "a && b 'c'"), (["a \\\n  b"], "a \\\n  b")],
)
def test_the_command_is_kept_byte_for_byte(cmd: object, command: str) -> None:
    assert built(run={"cmd": cmd}).run.command == command


@pytest.mark.parametrize(
    ("cmd", "printed"),
    [
        (["echo a", "echo b"], "a b"),
        (["echo a\n", "echo b\n"], "a b"),
        (["echo a # first", "echo b"], "a b"),
        (["# nothing", "", "echo b"], "b"),
        (["echo a; false", "echo b"], "a"),
        (["false", "echo a || echo b", "echo c"], ""),
        (["false", "echo a & wait", "echo c"], ""),
        (["cat <<E\na\nE\n", "echo b"], "a b"),
        (["echo a \\\n", "echo b"], "a b"),
        (["for i in 1 2\ndo echo $i\ndone", "echo b # last"], "1 2 b"),
    ],
)
def test_a_list_of_commands_runs_until_one_fails(cmd: list[str], printed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", built(run={"cmd": cmd}).run.command], capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (printed.split(), "")


def test_memory_of_zero_is_not_requested() -> None:
    (master,) = replicas(built(environment={"resources": {"memory": {"limits": 0}}}), per_gpu=False)
    assert master.memory is None


def test_keys_of_other_tools_have_a_hint(wording: Wording) -> None:
    data = {
        "run": "python train.py",
        "environment": {"replicas": 3, "resources": {"gpu": 2, "memory": "16G"}, "env": {"A": 1}},
        "batch": {"queue": "x", "ntasks_per_node": 2, "gpus": 4, "time_limit": "1h", "reservation": "r"},
    }
    wording(map(str, fields.build(Experiment, data)[1]))

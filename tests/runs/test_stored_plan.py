"""What state and logs read of plan.json, also of runs of earlier versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import ArraySpec
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import NodeGroup, Ranks, StoredPlan, decode
from tests.experiments import environment, resources
from tests.plans import LOCAL, planned

ARRAY = ArraySpec.parse("1-3")


def test_what_a_plan_writes_is_read() -> None:
    batch = {"array": "1-3", "requeue": True, "walltime": "1m"}
    plan = planned(
        description="a try",
        tags=["a"],
        params={"lr": 0.1, "layers": [64, 32]},
        batch=batch,
        framework="horovod",
        environment=environment(each=resources(gpu=1), workers=2),
    )
    assert plan.request.walltime == Walltime(60)
    assert decode(msgspec.json.encode(plan)) == StoredPlan(
        "a try",
        ("a",),
        {"lr": 0.1, "layers": [64, 32]},
        ARRAY,
        60,
        requeue=True,
        gpus=3,
        reserved_gpus=3,
        tasks=3,
        labelled=True,
        groups=(NodeGroup(0, 1, 3, 1500),),
        ranks=(Ranks(0, 1, 1, 0, memory=500), Ranks(1, 2, 2, 0, memory=500)),
        replica_cpus=1,
        replica_memory=500,
        replica_tasks=1,
        processes=3,
    )


def test_a_torchrun_is_one_task_and_several_ranks() -> None:
    each = environment(each=resources(gpu=2), workers=1)
    plan = planned(framework="pytorch", pytorch={"launch": "torchrun"}, environment=each)
    stored = decode(msgspec.json.encode(plan))
    assert (stored.tasks, stored.processes) == (1, 4)


def test_of_whole_nodes_all_gpus_are_the_jobs_own() -> None:
    batch = {"exclusive": True, "partition": "a100"}
    plan = planned(batch=batch, environment=environment(each=resources(gpu=1), workers=1))
    stored = decode(msgspec.json.encode(plan))
    assert (stored.gpus, stored.gpus_had) == (2, 4)
    assert stored._replace(reserved_gpus=None).gpus_had == 2


@pytest.mark.parametrize(
    ("batch", "labelled"),
    [({}, False), ({"launcher": "horovodrun"}, None), ({"launcher": {"name": "mpirun"}}, False)],
)
def test_whether_one_task_has_labels_is_the_launchers(batch: dict[str, Any], labelled: bool | None) -> None:  # noqa: FBT001
    plan = planned(LOCAL, framework="horovod", batch=batch)
    assert decode(msgspec.json.encode(plan)) == StoredPlan(
        gpus=0,
        reserved_gpus=0,
        tasks=1,
        labelled=labelled,
        groups=(NodeGroup(0, 1, 0),),
        ranks=(Ranks(0, 1, 1, 0),),
        replica_cpus=1,
        replica_tasks=1,
        processes=1,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "3",
        "[]",
        "[" * 100_000,
        '{"request": {"requeue": "yes"}}',
        '{"request": {"walltime": 4}}',
        '{"identity": {"tags": 3}}',
        '{"request": {"array": {"ranges": [{"first": 1, "last": 9, "step": 0}]}}}',
        '{"request": {"array": {"ranges": []}}}',
        '{"launch": {"mode": "tasks"}, "placement": {"rows": [{"tasks": "2"}]}}',
    ],
)
def test_an_invalid_file_is_an_empty_plan(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert RunDirectory(tmp_path).plan() == StoredPlan()

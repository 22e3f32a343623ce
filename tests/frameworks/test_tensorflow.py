from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcdist.frameworks.tensorflow import TENSORFLOW
from hpcdist.placement import Crowd, place
from hpcdist.plan import Plan
from hpcdist.renderer import render
from tests.experiments import environment, experiment
from tests.plans import TESTBED, planned
from tests.test_placement import jobs

PORT = 20000
PLAN = planned(framework="tensorflow", environment=environment(1, ps=1))


def tf_config(plan: Plan, folder: Path, rank: int) -> Any:
    """Return what the task wrapper tells a rank, on nodes that are called h0, h1, ..."""
    (folder / "task.sh").write_text(render(plan).task)
    (folder / "nodes").write_text("".join(f"h{node}.domain\n" for node in range(plan.placement.nodes)))
    here = next(task.node for task in plan.placement.tasks if task.rank == rank)
    environ = {
        "PATH": os.environ["PATH"],
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(plan.placement.size),
        "SLURMD_NODENAME": f"h{here}.domain",
        "HPCDIST_JOB_DIR": str(folder),
        "HPCDIST_ENDED": str(folder),
        "HPCDIST_PORT": str(PORT),
        "HPCDIST_OUTPUTS": "/outputs",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(500))),
    }
    argv = ["bash", str(folder / "task.sh"), "bash", "-c", "echo $TF_CONFIG"]
    return json.loads(subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crowds=jobs(), data=st.data())
def test_every_task_is_told_where_all_are(tmp_path: Path, crowds: list[Crowd], data: st.DataObject) -> None:
    placement = place(crowds)
    plan = msgspec.structs.replace(PLAN, placement=placement)
    first: dict[tuple[str, int], str] = {}
    for task in placement.tasks:
        first.setdefault((task.role, task.index), f"h{task.node}.domain:{PORT + task.local_rank}")
    peers: dict[str, list[str]] = {}
    for (role, _), address in first.items():
        peers.setdefault(role, []).append(address)
    chosen = data.draw(st.sampled_from(list(placement.tasks)))
    own = TENSORFLOW.task_variables(plan, experiment(tensorflow={"version": "1.15"}), TESTBED)
    plan = msgspec.structs.replace(plan, task_variables=own)
    assert tf_config(plan, tmp_path, chosen.rank) == {
        "cluster": peers,
        "task": {"type": chosen.role, "index": chosen.index},
        "model_dir": "/outputs",
        "environment": "cloud",
    }

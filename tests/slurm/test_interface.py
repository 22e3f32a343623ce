"""The Python interface on the real Slurm: submitted, awaited, read, cancelled, and a function called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended]

PROGRAM: Final = """\
import asyncio, json, platform
import hpcdist

def place(*words):
    import os
    by = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "srun"
    return [*words, by, os.environ["RANK"], os.environ["WORLD_SIZE"], platform.node()]

def experiment(name, cmd, **more):
    return hpcdist.define(name=name, framework="pytorch", nodes=2, cmd=cmd, batch={"walltime": "5m"}, **more)

log = "from hpcdist_tracking import log_metrics; log_metrics(step=1, loss=0.5)"
run = experiment("fit", f'python -c "{log}"; echo on $SLURMD_NODENAME', pytorch={"launch": "env"}).submit()
other = experiment("other", "sleep 1000", pytorch={"launch": "env"}).submit()
asked = other.cancel()
ends = asyncio.run(hpcdist.wait_async([run, other]))
print(json.dumps([
    [status.state.value for status in ends], asked, run.metrics().last,
    sorted(line for rank in (0, 1) for line in run.logs(rank=rank) if line.startswith("on ")),
    hpcdist.find_run(run.job_ids[0]).name,
    hpcdist.call(platform.node, on=experiment("called", "", pytorch={"launch": "env"})),
    hpcdist.call(
        place,
        on=experiment("torchrun", "", tasks_per_node=2, cpus_per_task=8, pytorch={"launch": "torchrun"}),
    ),
    hpcdist.call_each(
        place, [("a",), ("b",)], on=experiment("each", "", pytorch={"launch": "env"}), concurrency=1
    ),
]))
"""

APPLICATION: Final = """\
import platform
import hydra

@hydra.main(version_base=None)
def main(config):
    open(f"{config.name}.txt", "w").write(platform.node())

main()
"""


def test_runs_and_a_call_from_one_program(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    done = cluster.run([PYTHON, "-c", PROGRAM], user=user.name, cwd=workdir, env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        ["completed", "cancelled"],
        True,
        {"loss": 0.5},
        ["on n1", "on n2"],
        "fit-1",
        "n1",
        ["torchrun", "0", "4", "n1"],
        [["a", "srun", "0", "2", "n1"], ["b", "srun", "0", "2", "n1"]],
    ]


def test_multirun_of_hydra_is_an_array(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    (workdir / "app.py").write_text(APPLICATION)
    words = ["--multirun", "hydra/launcher=hpcdist", "hydra.launcher.walltime=5m", "+name=a,b,c"]
    argv: list[str | Path] = [PYTHON, "app.py", *words]
    done = cluster.run(argv, user=user.name, cwd=workdir, env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, done.stderr
    nodes = {file.stem: file.read_text() for file in workdir.glob("?.txt")}
    assert (sorted(nodes), {*nodes.values()} <= {"n1", "n2", "n3", "n4"}) == (["a", "b", "c"], True)
    [run] = user.json("status", "--offline")
    [shown] = user.json("status", run["name"])
    assert (run["name"], shown["state"]) == ("app-1", "completed")

"""Real training under PBS: ranks on two hosts, started by a real mpirun over ssh."""

from __future__ import annotations

import json
import re

import pytest

from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, PROBE, probes

from .conftest import FAKES, PbsUser

pytestmark = pytest.mark.real


def accuracy(log: str) -> float:
    found = re.search(r"test accuracy ([\d.]+)", log)
    assert found, log
    return float(found[1])


def trains(user: PbsUser, example: str, *options: str) -> str:
    done = user.hpcdist("submit", f"examples/{example}.yml", "--wait", *options)
    (run,) = (path.name for path in (user.directory / "runs").iterdir() if path.is_dir())
    log = user.log(run)
    assert done.returncode == 0, done.stderr + log
    assert accuracy(log) > 0.9
    return run


def test_quickstart_on_two_hosts_of_which_nothing_is_known(user: PbsUser) -> None:
    run = trains(user, "quickstart", "--site=pbs")
    assert "2 tasks by mpirun, 2 nodes: n1 n2 (job " in user.log(run)
    metrics = json.loads((user.directory / "runs" / run / "outputs" / "metrics.json").read_text())
    assert metrics["ranks"] == 2


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_horovod_on_two_hosts(user: PbsUser, launcher: str) -> None:
    run = trains(
        user,
        "horovod_digits",
        f"--set=batch.launcher={launcher}",
        "--set=environment.resources.cpu.requests=8",
        "--set=environment.replicas.default_worker.resources.cpu.requests=8",
    )
    assert f"4 tasks by {launcher}, 2 nodes: n1 n2 (job " in user.log(run)
    assert " on 4 ranks" in user.log(run)


@pytest.mark.extended
def test_tasks_are_where_the_plan_has_them_on_unequal_chunks(user: PbsUser) -> None:
    experiment = user.write(
        "unequal",
        {
            "framework": "mpi",
            "environment": {
                "resources": {"cpu": {"requests": 8}},
                "replicas": {"n_workers": 5, "default_worker": {"resources": {"cpu": {"requests": 4}}}},
            },
            "run": {"cmd": f"{PROBE}; echo threads $HPCDIST_RANK $OMP_NUM_THREADS"},
        },
    )
    planned = [
        {key: task[key] for key in ("rank", "role", "index", "node", "local_rank", "gpus")}
        for task in user.json("plan", experiment)["tasks"]
    ]
    done = user.hpcdist("submit", experiment, "--wait")
    assert done.returncode == 0, done.stderr + user.log("unequal-1")
    assert probes(user, "unequal-1") == planned
    log = user.log("unequal-1")
    assert sorted(re.findall(r"threads (\d) (\d+)", log))[:2] == [("0", "8"), ("1", "4")]


@pytest.mark.extended
def test_the_script_runs_by_hand(user: PbsUser) -> None:
    rendered = user.hpcdist("render", "examples/quickstart.yml")
    assert rendered.returncode == 0, rendered.stderr
    (user.directory / "job.sh").write_text(rendered.stdout)
    env = {"PATH": f"{FAKES}:{ENVIRONMENT['PATH']}", "FAKE_PBS": str(user.spool)}
    user.cluster.run(["qsub", "job.sh"], cwd=user.directory, env=env, check=True)
    log = user.directory / "quickstart.o1000"
    until(lambda: log.exists() and "test accuracy" in log.read_text(), "the job's output")
    assert accuracy(log.read_text()) > 0.9

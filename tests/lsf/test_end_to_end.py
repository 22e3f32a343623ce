"""All verbs through real processes, on one machine: bsub, bjobs, bkill and jsrun are stand-ins."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import here
from tests.lsf import state
from tests.lsf.state import Config

FAKE = Path(__file__).parent / "fake"
PATH = f"{FAKE}:{Path(sys.executable).parent}:/usr/bin:/bin"
HERE = Config(hosts=("localhost",), launch_host="batch1", csm=True)
SITE = {
    "name": "csm",
    "description": "a CSM machine of one host",
    "scheduler": "lsf",
    "launcher": "jsrun",
    "lsf": {"request": "nodes", "alloc_flags": ["gpumps"], "launch_node": True, "submit": "file"},
    "launchers": {"jsrun": {"args": ["--smpiargs=off"], "threads_per_core": 4}},
    "node_types": {"ac922": {"cpus": 42, "gpus": 6}},
    "partitions": {"batch": {"nodes": {"ac922": 1}}},
    "default_partition": "batch",
    "gpus": {"request": "none", "bound_by": "launcher"},
    "request_memory": False,
}


@dataclass(frozen=True)
class User:
    """Somebody at the login node of the stand-in."""

    directory: Path
    environment: dict[str, str]

    def hpcdist(self, *words: str) -> subprocess.CompletedProcess[str]:
        return here.hpcdist(*words, folder=self.directory, environment=self.environment)

    def good(self, *words: str) -> str:
        done = self.hpcdist(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def write(self, cmd: str, **keys: Any) -> None:
        data: dict[str, Any] = {"version": 1, "name": "run", "run": {"cmd": cmd}} | keys
        batch = {"account": "abc", "walltime": "10m"} | data.get("batch", {})
        (self.directory / "exp.yml").write_text(yaml.safe_dump(data | {"batch": batch}))

    def log(self, name: str = "job.out") -> str:
        file = self.directory / "runs" / "run-1" / "logs" / name
        return file.read_text() if file.exists() else ""

    def reported(self) -> dict[str, Any]:
        (found,) = json.loads(self.good("status", "run-1", "--json"))
        return dict(found)

    def reaches(self, wanted: str) -> dict[str, Any]:
        end = time.monotonic() + 120
        while (found := self.reported())["state"] != wanted:
            assert time.monotonic() < end, found
            time.sleep(0.1)
        return found


def a_user(tmp_path: Path, settings: Config) -> User:
    state.make(tmp_path / "lsf", settings)
    (tmp_path / "csm.yaml").write_text(yaml.safe_dump(SITE))
    environment = {
        "PATH": PATH,
        "HOME": str(tmp_path),
        "FAKE_LSF": str(tmp_path / "lsf"),
        "HPCDIST_SITE": str(tmp_path / "csm.yaml"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return User(tmp_path, environment)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    made = a_user(tmp_path, HERE)
    yield made
    for job in map(str, range(101, 104)):
        subprocess.run([FAKE / "bkill", job], env=made.environment, capture_output=True, check=False)


PROBE = (
    "echo probe $HPCDIST_RANK $HPCDIST_LOCAL_RANK "
    "$FAKE_GPUS $CUDA_VISIBLE_DEVICES $HPCDIST_GPUS $OMP_NUM_THREADS"
)
SIX = {
    "resources": {"cpu": {"requests": 7}, "gpu": {"requests": 1}},
    "replicas": {
        "n_workers": 5,
        "default_worker": {"resources": {"cpu": {"requests": 7}, "gpu": {"requests": 1}}},
    },
}


def probes(log: str) -> list[str]:
    return sorted(re.findall(r"probe (.*)", log))


def test_a_snapshot_is_where_the_tasks_start(user: User) -> None:
    user.write("echo at $PWD, $LS_SUBCWD", batch={"code": "snapshot"})
    user.good("submit", "exp.yml", "--wait")
    folder = user.directory / "runs" / "run-1" / "code"
    assert f"at {folder}, {folder}\n" in user.log()


def test_submit_wait_logs(user: User) -> None:
    user.write(PROBE, framework="mpi", environment=SIX)
    user.good("submit", "exp.yml", "--wait")
    assert probes(user.log()) == [f"{rank} {rank} {rank} 0 0 7" for rank in range(6)]
    assert (user.reported()["state"], user.reported()["exit_code"]) == ("completed", 0)
    assert "0: probe 0 0 0 0 0 7" in user.good("logs", "run-1")
    assert user.good("logs", "run-1", "--rank", "3") == "probe 3 3 3 0 0 7\n"
    assert "Sender: LSF System" in user.log("lsf.report")
    assert "Sender" not in user.good("logs", "run-1")
    line, *_ = (user.directory / "lsf" / "jsrun.log").read_text().splitlines()
    assert line.startswith("jsrun --nrs=6 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 ")


def test_unequal_tasks_by_a_resource_file(user: User) -> None:
    big = {"cpu": {"requests": 10}, "gpu": {"requests": 2}}
    user.write(PROBE, framework="pytorch", environment=SIX | {"resources": big})
    user.good("submit", "exp.yml", "--wait", "--set=environment.replicas.n_workers=2")
    assert probes(user.log()) == ["0 0 0,1 0,1 0,1 10", "1 1 2 0 0 7", "2 2 3 0 0 7"]


def test_a_failure_has_the_exit_code_of_the_task_that_failed(user: User) -> None:
    user.write("[[ $HPCDIST_RANK != 4 ]] || exit 7; sleep 30", framework="mpi", environment=SIX)
    done = user.hpcdist("submit", "exp.yml", "--wait")
    assert done.returncode == 7
    found = user.reported()
    assert (found["state"], found["native_state"], found["exit_code"]) == ("failed", "EXIT", 7)


@pytest.mark.extended
def test_cancel_a_running_job(user: User) -> None:
    user.write("echo up; sleep 987.25", framework="mpi", environment=SIX)
    user.good("submit", "exp.yml")
    end = time.monotonic() + 120
    while "5: up" not in user.log():
        assert time.monotonic() < end
        time.sleep(0.1)
    user.good("cancel", "run-1")
    found = user.reaches("cancelled")
    assert subprocess.run(["pgrep", "-f", "sleep 987.2[5]"], check=False).returncode == 1
    assert (found["native_state"], found["reason"]) == ("EXIT", "TERM_OWNER: job killed by owner")
    user.good("cancel", "run-1")  # nothing is left to do


def test_the_log_grows_while_the_job_runs(user: User) -> None:
    user.write("echo early; sleep 60")
    user.good("submit", "exp.yml")
    end = time.monotonic() + 120
    while "early" not in user.log():
        assert time.monotonic() < end
        time.sleep(0.1)
    assert user.reported()["state"] == "running"


def test_a_pending_job(user: User) -> None:
    (user.directory / "lsf" / "hold").touch()
    user.write("true")
    user.good("submit", "exp.yml")
    found = user.reported()
    assert (found["state"], found["reason"]) == ("pending", "New job is waiting for scheduling")
    user.good("cancel", "run-1")
    assert user.reported()["state"] == "cancelled"


@pytest.mark.extended
def test_the_time_limit(tmp_path: Path) -> None:
    user = a_user(tmp_path, quick())
    user.write("trap 'echo warned' USR1; while :; do sleep 0.05; done", batch={"signal": "USR1@120"})
    done = user.hpcdist("submit", "exp.yml", "--wait")
    assert done.returncode != 0
    found = user.reported()
    assert (found["state"], found["native_state"]) == ("timeout", "EXIT")
    assert "warned" in user.log()


def quick() -> Config:
    return Config(hosts=("localhost",), launch_host="batch1", csm=True, minute=0.15)


def test_an_array(user: User) -> None:
    user.write(
        "echo element $LSB_JOBINDEX; exit $((LSB_JOBINDEX == 1 ? 0 : 9 - LSB_JOBINDEX))",
        batch={"array": "1-3%2"},
    )
    assert user.hpcdist("submit", "exp.yml", "--wait").returncode == 7
    assert all(f"element {index}\n" in user.log(f"job-{index}.out") for index in (1, 2, 3))
    said = user.reported()
    assert (said["state"], said["exit_code"]) == ("failed", 7)
    assert said["reason"].startswith("first in element 2")


@pytest.mark.extended
@pytest.mark.parametrize("pack", [False, True])
def test_trials_of_a_search(user: User, pack: bool) -> None:  # noqa: FBT001
    search = {"matrix": {"n": {"values": [0, 3]}}, "concurrency": 1}
    user.write("echo trial $HPCDIST_TRIAL is {{ n }}; exit {{ n }}", hptuning=search, batch={"pack": pack})
    assert user.hpcdist("submit", "exp.yml", "--wait").returncode == 3
    assert all(f"trial {index} is {n}\n" in user.log(f"job-{index}.out") for index, n in ((1, 0), (2, 3)))
    shown = json.loads(user.good("sweep", "status", "run-1", "--json"))
    assert shown["states"] == {"completed": 1, "failed": 1}


@pytest.mark.extended
def test_a_job_that_waits_for_another(user: User) -> None:
    user.write("sleep 1; date +%s%N >first")
    user.good("submit", "exp.yml")
    user.write("date +%s%N >second", batch={"dependency": "101"})
    user.good("submit", "exp.yml", "--again", "--wait")
    assert (user.directory / "first").read_text() < (user.directory / "second").read_text()


def test_a_lost_answer_is_found_by_the_token(user: User) -> None:
    lossy = user.directory / "bin"
    lossy.mkdir()
    (lossy / "bsub").write_text(
        f'#!/bin/bash\n{FAKE}/bsub "$@" >/dev/null\necho "Communication time out" >&2\nexit 255\n'
    )
    (lossy / "bsub").chmod(0o755)
    user.write("sleep 60")
    lost = User(user.directory, user.environment | {"PATH": f"{lossy}:{PATH}"})
    lost.good("submit", "exp.yml")
    assert len(list((user.directory / "lsf" / "jobs").glob("*.json"))) == 1
    assert user.reported()["job_id"] == "101"


def test_a_refusal_is_told_with_what_to_do(user: User) -> None:
    user.write("true", batch={"account": ""})
    broken = user.directory / "bin"
    broken.mkdir()
    (broken / "bsub").write_text('#!/bin/bash\necho "x: No such queue. Job not submitted." >&2\nexit 255\n')
    (broken / "bsub").chmod(0o755)
    user.write("true")
    done = User(user.directory, user.environment | {"PATH": f"{broken}:{PATH}"}).hpcdist("submit", "exp.yml")
    assert done.returncode == 5
    assert (
        "LSF refused the job: x: No such queue. Job not submitted.; `bqueues` lists"
        in done.stderr.replace("\n", " ")
    )
    assert user.reported()["state"] == "unsubmitted"


def test_a_machine_without_lsf(user: User) -> None:
    user.write("true")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    bare = User(user.directory, user.environment | {"PATH": path})
    done = bare.hpcdist("submit", "exp.yml")
    assert done.returncode == 5
    assert "there is no `bsub` on this machine" in done.stderr
    assert bare.good("render", "exp.yml").startswith("#!/bin/bash\n# bsub reads it by its name")


@pytest.mark.extended
@pytest.mark.parametrize("version", [7, 9])
def test_old_versions_without_json(tmp_path: Path, version: int) -> None:
    settings = Config(hosts=("localhost",), launch_host="batch1", csm=True, version=version)
    user = a_user(tmp_path, settings)
    user.write("exit 3")
    assert user.hpcdist("submit", "exp.yml", "--wait").returncode == (3 if version > 7 else 1)
    found = user.reported()
    assert (found["state"], found["native_state"]) == ("failed", "EXIT")


def test_a_script_by_hand_on_a_plain_lsf(tmp_path: Path) -> None:
    settings = Config(hosts=(os.uname().nodename,), slots=8)
    user = a_user(tmp_path, settings)
    site = SITE | {
        "lsf": {"request": "slots"},
        "gpus": {"request": "gpus_per_node"},
        "node_types": {"ac922": {"cpus": 8}},
    }
    (tmp_path / "csm.yaml").write_text(yaml.safe_dump(site))
    user.write("echo by hand", framework="mpi", environment={"replicas": {"n_workers": 3}})
    (tmp_path / "job.sh").write_text(user.good("render", "exp.yml"))
    with (tmp_path / "job.sh").open() as script:
        done = subprocess.run(["bsub"], stdin=script, cwd=tmp_path, env=user.environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Job <101> is submitted to queue <batch>.\n"), done.stderr
    end = time.monotonic() + 120
    output = tmp_path / "run-101.out"
    while not (output.exists() and output.read_text().count("by hand") == 4):
        assert time.monotonic() < end
        time.sleep(0.1)

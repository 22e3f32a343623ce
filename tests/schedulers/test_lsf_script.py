"""What the script finds out from LSF's variables, by a real bash; mpirun and jsrun are stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcdist.plan.model import Plan
from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import planned
from tests.script.jobs import write
from tests.sites import site_named
from tests.wording import Wording

STARTER = """\
#!/bin/bash
while [[ $1 != bash ]]; do shift; done
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0
exec "$@"
"""
ORDER = """\
#!/bin/bash
[[ $* == *JSM_NAMESPACE_RANK* ]] || exit 9
cat "$ORDER"
"""
TOLD = 'echo "$HPCDIST_JOB_ID $HPCDIST_PORT ${HPCDIST_OUTPUTS#"$PWD/"}" >>told'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("mpirun", STARTER), ("jsrun", ORDER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(folder: Path, job: Plan, **variables: str) -> subprocess.CompletedProcess[str]:
    write(folder / "run", job)
    path = f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {"PATH": path, "LS_SUBCWD": str(folder), "LSB_JOBID": "7", "LSB_JOBINDEX": "0"} | variables
    return subprocess.run(
        ["bash", "run/job.sh"], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def script(site: str = "lsf", **data: Any) -> Plan:
    return planned(site_named(site), **({"run": {"cmd": TOLD}} | data))


def log(folder: Path) -> str:
    return (folder / "run" / "logs" / "job.out").read_text()


def nodes(folder: Path) -> list[str]:
    return (folder / "run" / "jobs" / "7" / "nodes").read_text().split()


def test_a_job_and_its_second_run(folder: Path) -> None:
    for attempt in (0, 1):
        done = run(folder, script(), LSB_MCPU_HOSTS="localhost 1 ")
        assert (done.returncode, done.stderr) == (0, "")
        assert log(folder).count("hpcdist: attempt 1 begins (job 7)\n") == attempt
        events = (folder / "run" / "events").read_text().splitlines()
        assert [line.split()[::3] for line in events[-2:]] == [["started", str(attempt)], ["ended", "0"]]
    assert (folder / "told").read_text() == "7 20112 run/outputs\n" * 2


def test_elements_of_an_array_have_ports_and_outputs_of_their_own(folder: Path) -> None:
    job = script(batch={"array": "1-10"})
    for element in ("1", "10"):
        assert run(folder, job, LSB_JOBINDEX=element, LSB_MCPU_HOSTS="localhost 1").returncode == 0
    assert (folder / "told").read_text().splitlines() == [
        "7_1 20704 run/outputs/1",
        "7_10 26032 run/outputs/10",
    ]


def test_output_is_written_while_the_job_runs(folder: Path) -> None:
    job = script(run={"cmd": "echo hello"})
    done = run(folder, job, LSB_MCPU_HOSTS="localhost 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "run" / "logs" / "job.out").read_text().endswith("hello\n")
    run(folder, job, LSB_MCPU_HOSTS="localhost 1", LSB_JOBINDEX="3")
    assert (folder / "run" / "logs" / "job-3.out").read_text().endswith("hello\n")


def test_a_host_list_that_is_too_long_for_a_variable(folder: Path) -> None:
    (folder / "hosts").write_text("localhost\n" * 42)
    assert run(folder, script(), LSB_DJOB_HOSTFILE=str(folder / "hosts")).returncode == 0
    assert nodes(folder) == ["localhost"]


def test_the_launch_node_is_no_node(folder: Path) -> None:
    job = script("csm-nodes", batch={"account": "a", "launcher": "mpirun"})
    assert run(folder, job, LSB_MCPU_HOSTS="batch2 1 localhost 42 ").returncode == 0
    assert nodes(folder) == ["localhost"]
    (folder / "hosts").write_text("batch2\n" + "localhost\n" * 42)
    assert run(folder, job, LSB_DJOB_HOSTFILE=str(folder / "hosts")).returncode == 0
    assert nodes(folder) == ["localhost"]


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("1 h22n07.machine.org\n0 h22n08\n", ["h22n08", "h22n07"]),
        ("0 h22n07\n1 h22n08\n", ["h22n07", "h22n08"]),
        ("0 h22n07\n", ["h22n07", "h22n08"]),
        ("0 h22n07\n1 other\n", ["h22n07", "h22n08"]),
        ("", ["h22n07", "h22n08"]),
    ],
)
def test_nodes_are_in_the_order_of_jsrun_where_it_tells_it(
    folder: Path, answer: str, order: list[str]
) -> None:
    (folder / "order").write_text(answer)
    each = resources(cpu=16)
    job = script("csm-nodes", framework="mpi", batch={"account": "a"}, environment=environment(1, each=each))
    run(folder, job, LSB_MCPU_HOSTS="batch2 1 h22n07 42 h22n08 42 ", ORDER=str(folder / "order"))
    assert nodes(folder) == order


def test_other_hosts_than_the_plan_needs(folder: Path, wording: Wording) -> None:
    done = run(folder, script(), LSB_MCPU_HOSTS="h1 1 h2 1")
    assert done.returncode == 86
    wording(log(folder))


def test_outside_of_lsf(folder: Path) -> None:
    done = subprocess.run(
        ["bash"], input=render(script()), cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (86, "hpcdist: submit this script by bsub\n")


def test_a_directory_that_is_not_there(folder: Path) -> None:
    done = run(folder, script(), LS_SUBCWD="/nowhere", LSB_MCPU_HOSTS="localhost 1")
    assert done.returncode == 86
    assert log(folder) == f"hpcdist: /nowhere: No such file or directory on {os.uname().nodename}\n"

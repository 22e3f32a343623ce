"""What jobs cost and used on the real Slurm: the figures are sacct's, and each node has its samples."""

from __future__ import annotations

import re
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.schedulers.job import seconds, size
from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, User

pytestmark = pytest.mark.real

COLUMNS: Final = "JobID,Submit,Start,End,ElapsedRaw,TotalCPU,AllocTRES,MaxRSS,TRESUsageInTot"
COMMAND: Final = """\
until [[ -s $HPCDIST_JOB_DIR/gpu_usage/0.0.0 && -s $HPCDIST_JOB_DIR/gpu_usage/0.0.1 ]]; do sleep 0.2; done
python3 -c 'held = bytearray(100 << 20); sum(range(10_000_000))'
"""
NODE: Final = {"resources": {"cpu": {"requests": 1}, "gpu": {"requests": 1}}}
EXPERIMENT: Final[dict[str, Any]] = {
    "framework": "mpi",
    "run": {"cmd": COMMAND},
    "tracking": {"gpu_usage": 1},
    "environment": {**NODE, "replicas": {"n_workers": 4, "default_worker": NODE}},
}
TOOL: Final = """\
#!/bin/bash
echo 'index, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB]'
echo '0, GPU-a, 37, 8192, 81559'
"""
"""A stand-in for nvidia-smi, which writes what its manual describes."""


def kept(user: User, run: str) -> bool:
    assert user.hpcdist("describe", run).returncode == 0
    return (user.directory / "runs" / run / "accounting.json").exists()


def starts(user: User, run: str) -> list[dict[str, Any]]:
    """The cost of each start, an element after the other."""
    return sorted(user.json("describe", run)["cost"]["starts"], key=lambda cost: str(cost["job_id"]))


def _without_place(cost: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in cost.items() if key not in ("job_id", "start")}


def of_sacct(user: User, number: str) -> list[dict[str, Any]]:
    """The cost of each start of a job, or of the elements of an array, from sacct's own columns."""
    words = ["sacct", "-D", "-n", "-P", "-j", number, "-o", COLUMNS]
    shown = user.cluster.run(words, env={"SLURM_TIME_FORMAT": "%s"}, check=True).stdout.splitlines()
    rows = [dict(zip(COLUMNS.split(","), line.split("|"), strict=True)) for line in shown]
    begins = [place for place, row in enumerate(rows) if "." not in row["JobID"]]
    found = [rows[begin:end] for begin, end in pairwise([*begins, len(rows)])]
    return [_of_rows(*own) for own in sorted(found, key=lambda own: own[0]["JobID"])]


def _of_rows(job: dict[str, str], *steps: dict[str, str]) -> dict[str, Any]:
    had = dict(item.split("=") for item in job["AllocTRES"].split(",") if item)
    elapsed, cpus, gpus = int(job["ElapsedRaw"]), int(had.get("cpu", 0)), int(had.get("gres/gpu", 0))
    cpu = seconds(job["TotalCPU"])
    used = [dict(item.split("=") for item in step["TRESUsageInTot"].split(",") if item) for step in steps]
    began = job["Start"] if job["Start"].isdecimal() else job["End"]
    return {
        "queue_seconds": int(began) - int(job["Submit"]),
        "elapsed_seconds": elapsed,
        "cpus": cpus,
        "gpus": gpus,
        "gpu_hours": gpus * elapsed / 3600,
        "cpu_hours_had": cpus * elapsed / 3600,
        "cpu_hours": cpu and cpu / 3600,
        "cpu_share": cpu / (cpus * elapsed) if cpu and elapsed else None,
        "max_memory": max((size(step["MaxRSS"]) or 0 for step in steps), default=0) or None,
        "total_memory": sum(size(step.get("mem", "")) or 0 for step in used) or None,
        "is_measured": True,
    }


def test_the_figures_are_those_of_sacct(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    tool = workdir / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(TOOL)
    tool.chmod(0o755)
    path = {"PATH": f"{tool.parent}:{ENVIRONMENT['PATH']}"}
    assert user.hpcdist("submit", user.write("used", EXPERIMENT), "--wait", env=path).returncode == 0
    until(partial(kept, user, "used-1"), "sacct to know the end")

    number = user.json("status", "used-1")[0]["job_id"]
    [cost] = starts(user, "used-1")
    [accounted] = of_sacct(user, number)
    assert (cost["gpus"], cost["elapsed_seconds"] > 0, cost["total_memory"] > 100 << 20) == (6, True, True)
    assert cost == {**accounted, "job_id": number, "start": 0}
    [listed] = user.json("status", "--offline", "--cost")
    per_start = {"job_id": None, "start": None, "cpus": None, "gpus": None}
    assert {**per_start, **listed["cost"]} == {**cost, **per_start}

    folder = workdir / "runs" / "used-1" / "jobs" / number / "gpu_usage"
    files = {file.name: file.read_text().splitlines() for file in folder.iterdir()}
    assert {name: lines[0] for name, lines in files.items()} == {
        "0.0.0": "# n1 nvidia-smi",
        "0.0.1": "# n2 nvidia-smi",
    }
    assert all(line.split()[4:] == ["0:37:8192:81559"] for lines in files.values() for line in lines[1:])


ENDS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "again": ("a100", "echo up; [[ $SLURM_RESTART_COUNT ]] || sleep 600", {"requeue": True}),
    "array": ("a100", "sleep $SLURM_ARRAY_TASK_ID", {"array": "1-2"}),
    "lost": ("v100", "echo up; sleep 600", {"requeue": False, "directives": ["--nodelist=n4"]}),
    "never": ("a100", "true", {"directives": ["--begin=now+3600"]}),
    "stopped": ("v100", "echo up; sleep 600", {"directives": ["--nodelist=n3"]}),
}
"""Jobs by their names, each with its partition and its command; what becomes of them is below."""


@pytest.mark.extended
def test_the_figures_are_those_of_sacct_however_a_job_ends(
    accounting_cluster: Cluster, workdir: Path
) -> None:
    user, numbers = User(accounting_cluster, workdir), {}
    slurm = partial(user.cluster.run, user="root", check=True)
    for name, (partition, command, batch) in ENDS.items():
        batch |= {"partition": partition}
        file = user.write(name, {"run": {"cmd": command}, "environment": NODE, "batch": batch})
        assert user.hpcdist("submit", file).returncode == 0
        numbers[name] = user.json("status", f"{name}-1")[0]["job_id"]
    for name in ("again", "lost", "stopped"):
        user.await_log(f"{name}-1", "up")
    slurm(["scontrol", "suspend", numbers["stopped"]])
    slurm(["scontrol", "requeue", numbers["again"]])
    user.cluster.crash("n4")
    assert user.hpcdist("cancel", "never-1").returncode == 0
    assert user.hpcdist("wait", "lost-1").returncode != 0
    slurm(["scontrol", "resume", numbers["stopped"]])
    assert user.hpcdist("cancel", "stopped-1").returncode == 0
    user.hpcdist("wait", *(f"{name}-1" for name in ENDS))
    for name in numbers:
        until(partial(kept, user, f"{name}-1"), f"sacct to know the end of {name}")
    found = {name: [_without_place(cost) for cost in starts(user, f"{name}-1")] for name in numbers}
    assert found == {name: of_sacct(user, number) for name, number in numbers.items()}


@pytest.mark.extended
def test_without_an_accounting_database_it_is_what_the_event_log_has(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    experiment = {"run": {"cmd": "true"}, "environment": NODE}
    assert user.hpcdist("submit", user.write("bare", experiment), "--wait").returncode == 0
    [cost] = user.json("describe", "bare-1")["cost"]["starts"]
    assert (cost["is_measured"], cost["cpu_hours"], cost["max_memory"]) == (False, None, None)
    assert cost["gpu_hours"] == cost["elapsed_seconds"] / 3600
    [listed] = user.json("status", "--offline", "--cost")
    assert listed["cost"]["gpu_hours"] == cost["gpu_hours"]


APART: Final[dict[str, Any]] = {
    "framework": "mpi",
    "run": {
        "cmd": "touch up.$HPCDIST_RANK; if ((HPCDIST_RANK)); then sleep 600; fi\n"
        "until [[ -e over ]]; do sleep 0.2; done"
    },
    "environment": {
        "node_selector": {"partition": "cpu"},
        "replicas": {"n_workers": 2, "default_worker": {**NODE, "node_selector": {"partition": "v100"}}},
    },
    "batch": {"kill_on_failure": False},
}
"""One node without GPUs, and two tasks with one GPU each in another component."""


@pytest.mark.extended
def test_components_that_end_apart_count_for_their_own_time(
    accounting_cluster: Cluster, workdir: Path
) -> None:
    user = User(accounting_cluster, workdir)
    assert user.hpcdist("submit", user.write("apart", APART)).returncode == 0
    until(lambda: len([*workdir.glob("up.*")]) == 3, "all ranks to begin")
    [job] = user.json("status", "apart-1")
    time.sleep(2)  # sacct's times are whole seconds
    accounting_cluster.run(["scancel", f"{job['job_id']}+1"], user=user.name, check=True)

    def is_apart() -> bool:
        [status] = user.json("status", "apart-1")
        return (status["state"], status["reason"]) == (
            "running",
            "component 0 RUNNING, component 1 CANCELLED",
        )

    until(is_apart, "the component to be cancelled")
    time.sleep(2)
    (workdir / "over").touch()
    user.hpcdist("wait", "apart-1")
    until(partial(kept, user, "apart-1"), "sacct to know the end")
    [cost], parts = starts(user, "apart-1"), of_sacct(user, job["job_id"])
    assert [part["gpus"] for part in parts] == [0, 2]
    assert parts[0]["elapsed_seconds"] > parts[1]["elapsed_seconds"] > 0
    for name in ("gpu_hours", "cpu_hours_had"):
        assert cost[name] == pytest.approx(sum(part[name] for part in parts))
    [status] = user.json("status", "apart-1")
    assert re.search(r"component 0 \S+, component 1 CANCELLED", status["reason"]), status

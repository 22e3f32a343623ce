"""What jobs cost and used on the real Slurm: the figures are sacct's, and each node has its samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.schedulers.accounting import seconds, size
from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, User

pytestmark = pytest.mark.real

COLUMNS: Final = "Submit,Start,End,ElapsedRaw,TotalCPU,AllocCPUS,AllocTRES,MaxRSS,TRESUsageInTot"
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


def kept(user: User) -> bool:
    assert user.hpcdist("describe", "used-1").returncode == 0
    return (user.directory / "runs" / "used-1" / "accounting.json").exists()


def test_the_figures_are_those_of_sacct(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    tool = workdir / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(TOOL)
    tool.chmod(0o755)
    path = {"PATH": f"{tool.parent}:{ENVIRONMENT['PATH']}"}
    assert user.hpcdist("submit", user.write("used", EXPERIMENT), "--wait", env=path).returncode == 0
    until(partial(kept, user), "sacct to know the end")

    number = user.json("status", "used-1")[0]["job_id"]
    words = ["sacct", "-n", "-P", "-j", number, "-o", COLUMNS]
    shown = user.cluster.run(words, env={"SLURM_TIME_FORMAT": "%s"}, check=True).stdout.splitlines()
    job, *steps = [dict(zip(COLUMNS.split(","), line.split("|"), strict=True)) for line in shown]
    had = dict(item.split("=") for item in job["AllocTRES"].split(","))
    elapsed, cpus = int(job["ElapsedRaw"]), int(job["AllocCPUS"])
    cpu = seconds(job["TotalCPU"])
    used = [dict(item.split("=") for item in step["TRESUsageInTot"].split(",")) for step in steps]
    assert cpu is not None
    [cost] = user.json("describe", "used-1")["cost"]["starts"]
    assert cost == {
        "job_id": number,
        "start": 0,
        "queue_seconds": int(job["Start"]) - int(job["Submit"]),
        "elapsed_seconds": elapsed,
        "cpus": cpus,
        "gpus": int(had["gres/gpu"]),
        "gpu_hours": int(had["gres/gpu"]) * elapsed / 3600,
        "cpu_hours_had": cpus * elapsed / 3600,
        "cpu_hours": cpu / 3600,
        "cpu_share": cpu / (cpus * elapsed),
        "max_memory": max(size(step["MaxRSS"]) or 0 for step in steps),
        "total_memory": sum(size(step["mem"]) or 0 for step in used),
        "is_measured": True,
    }
    [listed] = user.json("list", "--cost")
    per_start = {"job_id": None, "start": None, "cpus": None, "gpus": None}
    assert {**per_start, **listed["cost"]} == {**cost, **per_start}

    folder = workdir / "runs" / "used-1" / "jobs" / number / "gpu_usage"
    files = {file.name: file.read_text().splitlines() for file in folder.iterdir()}
    assert {name: lines[0] for name, lines in files.items()} == {
        "0.0.0": "# n1 nvidia-smi",
        "0.0.1": "# n2 nvidia-smi",
    }
    assert all(line.split()[4:] == ["0:37:8192:81559"] for lines in files.values() for line in lines[1:])


def test_without_an_accounting_database_it_is_what_the_event_log_has(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    experiment = {"run": {"cmd": "true"}, "environment": NODE}
    assert user.hpcdist("submit", user.write("bare", experiment), "--wait").returncode == 0
    [cost] = user.json("describe", "bare-1")["cost"]["starts"]
    assert (cost["is_measured"], cost["cpu_hours"], cost["max_memory"]) == (False, None, None)
    assert cost["gpu_hours"] == cost["elapsed_seconds"] / 3600
    [listed] = user.json("list", "--cost")
    assert listed["cost"]["gpu_hours"] == cost["gpu_hours"]

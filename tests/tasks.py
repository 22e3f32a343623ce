"""What tasks are told: the job's exports and the task wrapper, by a real bash, without a launcher."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Task
from hpcdist.script.renderer import render

PORT = 20000
DEVICES = [str(number) for number in range(100, 600)]
"""The GPUs of each node."""

KEPT = {name: f"${name}" for name in ("HPCDIST_RUN_DIR", "HPCDIST_OUTPUTS", "HPCDIST_JOB_ID")}
"""Variables of the run: here each is its own name."""

NO_ADDRESSES = {"BASH_FUNC_getent%%": "() { :; }"}
"""A function of bash: no name has an address here, whatever this machine's DNS says."""

RANK_AFTER_RANK = """
hpcdist_task_text >"$HPCDIST_JOB_DIR/task.sh"
environment
while (($#)); do
  {rank}=$1 PMIX_RANK=$1 SLURMD_NODENAME=$2 bash "$HPCDIST_JOB_DIR/task.sh" bash -c '
    env -0 >"$HPCDIST_JOB_DIR/told.$HPCDIST_RANK"' || exit
  shift 2
done
"""


def told(plan: Plan, folder: Path, tasks: Iterable[Task] | None = None, **more: str) -> list[dict[str, str]]:
    """Start tasks (else all), one after the other, on nodes called node0, node1, ...; return their variables.

    ``more`` are variables of the job.
    """
    assert plan.launch.rank_variables
    (folder / "nodes").write_text("".join(f"node{node}\n" for node in range(plan.placement.nodes)))
    chosen = list(plan.placement.tasks if tasks is None else tasks)
    places = [text for task in chosen for text in (str(task.rank), f"node{task.node}")]
    environ = (
        KEPT
        | NO_ADDRESSES
        | {
            str(plan.launch.rank_variables.size): str(plan.placement.size),
            "HPCDIST_JOB_DIR": str(folder),
            "HPCDIST_FAILURE": str(folder / "failure"),
            "HPCDIST_ENDED": str(folder),
            "HPCDIST_HEAD_ADDRESS": "node0",
            "HPCDIST_PORT": str(PORT),
            "CUDA_VISIBLE_DEVICES": ",".join(DEVICES),
        }
    )
    line = RANK_AFTER_RANK.format(rank=plan.launch.rank_variables.rank)
    assert called(render(plan), line, *places, **environ | more) == ""
    return [variables_in(folder / f"told.{task.rank}") for task in chosen]


def task_wrapper(script: str) -> str:
    """Return what the job writes as ``task.sh``; empty where its tasks have no wrapper."""
    return called(script, "hpcdist_task_text") if " [mode]=tasks " in script else ""


def called(script: str, line: str, *arguments: str, **environ: str) -> str:
    """Return what a line of bash prints in which a script's functions are known, before anything is run."""
    functions, main, _ = script.rpartition("\nmain\n")
    assert main
    done = subprocess.run(
        ["bash", "-s", "--", *arguments],
        input=f"{functions}\ntrap - EXIT\n{line}",
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def variables_in(file: Path) -> dict[str, str]:
    """Return what ``env -0`` wrote."""
    lines = file.read_bytes().decode().split("\0")[:-1]
    return dict(line.split("=", 1) for line in lines)

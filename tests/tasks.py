"""What tasks are told: a job's own script by a real bash, with a stand-in of its launcher."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Task
from hpcdist.plan.values import TASK_WRAPPER
from hpcdist.script.renderer import render

PORT = 20000
DEVICES = [str(number) for number in range(100, 600)]
"""The GPUs of each node."""

KEPT = {name: f"${name}" for name in ("HPCDIST_RUN_DIR", "HPCDIST_OUTPUTS", "HPCDIST_JOB_ID")}
"""Variables of the run: here each is its own name."""

ADDRESSES = {"BASH_FUNC_getent%%": '() { echo "$2 STREAM"; }'}
"""A function of bash: each name is its own address here, whatever this machine's DNS says."""

DEFAULTS: Final = {**KEPT, **ADDRESSES, "CUDA_VISIBLE_DEVICES": ",".join(DEVICES)}

LAUNCHER: Final = """\
#!/bin/bash
# Stands for any launcher, and starts the chosen tasks, one after the other.
while [[ $1 != bash ]]; do shift; done
code=0
while read -r rank local node; do
  sed -n "$((node + 1))p" "$FOLDER/nodes" >"$FOLDER/hostname"
  own=({rank}="$rank" {local}="$local" PMIX_RANK="$rank" SLURM_NODEID="$node" SLURMD_NODENAME="node$node")
  env "${{own[@]}}" "$@" </dev/null || code=$?
done <"$FOLDER/chosen"
exit "$code"
"""
KNOWN: Final = {
    "/proc/sys/kernel/hostname": "$FOLDER/hostname",
    "/dev/nvidia": "$FOLDER/nvidia",
    "nodes=(localhost)": "nodes=(node0)",
    "HPCDIST_HEAD_ADDRESS=127.0.0.1": "HPCDIST_HEAD_ADDRESS=node0",
    "20000 + $$ %": "20000 + 0 %",
}
"""What a script has of this machine, and what it gets here."""

SCONTROL: Final = '#!/bin/bash\nprintf "%s\\n" ${3//,/ }\n'


def told(
    plan: Plan, folder: Path, tasks: Iterable[Task] | None = None, names: Sequence[str] = (), **more: str
) -> list[dict[str, str]]:
    """Start tasks (else all) on nodes called node0, node1, ...; return their variables.

    ``names``: those of ours that their command names. ``more`` are variables of the job.
    """
    chosen = list(plan.placement.tasks if tasks is None else tasks)
    command = "".join(f": ${name}; " for name in names) + 'env -0 >"$FOLDER/told.$HPCDIST_RANK"'
    done = run(plan, folder, command, chosen, **DEFAULTS | more)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [variables_in(folder / f"told.{task.rank}") for task in chosen]


def run(
    plan: Plan, folder: Path, command: str, tasks: Sequence[Task], **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in which each of these tasks runs this command, without a framework's words."""
    variables = plan.launch.rank_variables
    assert variables
    names = [f"node{node}" for node in range(plan.placement.nodes)]
    local = variables.local_rank or "LOCAL"
    for name, text in (
        (
            plan.launcher_words[0].text if plan.launcher_words else "srun",
            LAUNCHER.format(rank=variables.rank, local=local),
        ),
        ("scontrol", SCONTROL),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "chosen").write_text("".join(f"{one.rank} {one.local_rank} {one.node}\n" for one in tasks))
    (folder / "nodes").write_text("".join(f"{name}\n" for name in names))
    # Servers would be told to end before they have said anything.
    alone = replace(
        plan,
        identity=replace(plan.identity, command=command),
        words=(*plan.launcher_words[:1], TASK_WRAPPER, plan.words[-1]),
        role_launches=(),
        completion=replace(plan.completion, required_roles=()),
    )
    script = render(alone)
    for old, new in KNOWN.items():
        script = script.replace(old, new)
    of_groups = (
        ",".join(names[first:end])
        for first, end in pairwise(accumulate((group.nodes for group in plan.placement.groups), initial=0))
    )
    environ = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "FOLDER": str(folder),
        "SLURM_JOB_ID": "0",
        "SLURM_JOB_NODELIST": ",".join(names),
        "SLURM_JOB_NUM_NODES": str(len(names)),
        **{f"SLURM_JOB_NODELIST_HET_GROUP_{number}": text for number, text in enumerate(of_groups)},
        "PBS_JOBID": "0",
        "PBS_O_WORKDIR": str(folder),
        "PBS_NODEFILE": f"{folder}/nodes",
        "LSB_JOBID": "0",
        "LS_SUBCWD": str(folder),
        "LSB_MCPU_HOSTS": "batch 1 " * plan.request.lsf.launch_node + "".join(f"{name} 1 " for name in names),
        "JOB_ID": "0",
        "PE_HOSTFILE": f"{folder}/nodes",
        **({variables.size: str(plan.placement.size)} if variables.size else {}),
    }
    return subprocess.run(
        ["bash"],
        input=script,
        cwd=folder,
        env=environ | more,
        capture_output=True,
        text=True,
        check=False,
    )


def variables_in(file: Path) -> dict[str, str]:
    """Return what ``env -0`` wrote."""
    lines = file.read_bytes().decode().split("\0")[:-1]
    return dict(line.split("=", 1) for line in lines)

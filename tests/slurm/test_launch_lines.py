"""Users' own launches over two nodes: the line that `check` gives for each is submitted, and trains."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.slurm.users import User, framework_path

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("examples")]

EXPERIMENT = """
name: own
framework: {framework}
environment:
  resources: {{cpu: {{requests: 16}}}}
  replicas: {{n_workers: 1, default_worker: {{resources: {{cpu: {{requests: 16}}}}}}}}
run: {{cmd: "{command}"}}
batch: {{walltime: "00:06:00"}}
"""


MEET = (
    '--nnodes=2 --node_rank="$HPCDIST_NODE" --master_addr="$HPCDIST_HEAD_ADDRESS" '
    '--master_port="$HPCDIST_PORT"'
)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("framework", "commands", "world"),
    [
        (
            "pytorch",
            {
                "torchrun --nproc_per_node=1 examples/pytorch_ddp.py": (
                    f"torchrun --nproc_per_node=1 {MEET} examples/pytorch_ddp.py"
                ),
                "python -m torch.distributed.run examples/pytorch_ddp.py": (
                    f"python -m torch.distributed.run {MEET} examples/pytorch_ddp.py"
                ),
                "torchrun --standalone examples/pytorch_ddp.py": f"torchrun {MEET} examples/pytorch_ddp.py",
            },
            "on 2 cpu processes",
        ),
        (
            "mpi",
            {
                "mpirun -np 2 -H server1:1,server2:1 python examples/quickstart.py": (
                    'mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" python examples/quickstart.py'
                )
            },
            "on 2 ranks",
        ),
        (
            "mpi",
            {"mpirun -np 1 python examples/quickstart.py": "mpirun -np 2 python examples/quickstart.py"},
            "on 2 ranks",
        ),
        (
            "deepspeed",
            {
                "deepspeed examples/deepspeed_tiny.py": (
                    'deepspeed --hostfile "$HPCDIST_HOSTFILE" examples/deepspeed_tiny.py'
                )
            },
            "on 2 cpu processes",
        ),
    ],
    ids=["pytorch", "mpi with hosts", "mpi", "deepspeed"],
)
def test_the_line_that_check_gives(
    user: User, framework: str, commands: Mapping[str, str], world: str
) -> None:
    """Those of torchrun differ in how it is called, and in nothing else: the last is run."""
    path = {"PATH": framework_path("")}
    file = user.directory / "own.yml"
    lines = {}
    for command in commands:
        file.write_text(EXPERIMENT.format(framework=framework, command=command))
        (lines[command],) = re.findall(
            r"; write `([^`]+)`", user.hpcdist("check", "own.yml", env=path).stderr
        )
    assert lines == commands
    words = ("submit", "own.yml", f"--set=run.cmd={[*lines.values()][-1]}", "--follow")
    done = user.hpcdist(*words, env=path)
    if world in done.stdout and done.returncode:
        done = user.hpcdist(*words, env=path)  # PyTorch 2.13 now and then aborts or hangs at its very end
    assert done.returncode == 0, done.stderr + done.stdout
    assert world in done.stdout

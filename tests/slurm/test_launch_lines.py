"""Users' own launches over two nodes: the line that `check` gives for each is submitted, and trains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.users import User, framework_path

pytestmark = pytest.mark.real

EXPERIMENT = """
name: own
framework: {framework}
environment:
  resources: {{cpu: {{requests: 16}}}}
  replicas: {{n_workers: 1, default_worker: {{resources: {{cpu: {{requests: 16}}}}}}}}
run: {{cmd: "{command}"}}
batch: {{walltime: "00:10:00"}}
"""


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    (workdir / "examples").symlink_to(CHECKOUT / "examples")
    return User(cluster, workdir)


@pytest.mark.parametrize(
    ("framework", "command", "world"),
    [
        ("pytorch", "torchrun --nproc_per_node=1 examples/pytorch_ddp.py", "on 2 cpu processes"),
        (
            "pytorch",
            "python -m torch.distributed.run examples/pytorch_ddp.py",
            "on 2 cpu processes",
        ),
        ("pytorch", "torchrun --standalone examples/pytorch_ddp.py", "on 2 cpu processes"),
        ("mpi", "mpirun -np 2 -H server1:1,server2:1 python examples/quickstart.py", "on 2 ranks"),
        ("mpi", "mpirun -np 1 python examples/quickstart.py", "on 2 ranks"),
        ("deepspeed", "deepspeed examples/deepspeed_tiny.py", "on 2 cpu processes"),
    ],
)
def test_the_line_that_check_gives(user: User, framework: str, command: str, world: str) -> None:
    file = user.directory / "own.yml"
    file.write_text(EXPERIMENT.format(framework=framework, command=command))
    path = {"PATH": framework_path("")}
    said = user.hpcdist("check", "own.yml", env=path).stderr
    (line,) = re.findall(r"; write `([^`]+)`", said)
    done = user.hpcdist("submit", "own.yml", f"--set=run.cmd={line}", "--follow", env=path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert world in done.stdout

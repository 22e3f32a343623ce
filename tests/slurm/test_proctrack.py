"""Who hears a signal: with proctrack/cgroup, Slurm's default, only what slurmstepd itself has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm import cgroups
from tests.slurm.cluster import Cluster
from tests.slurm.config import Node
from tests.slurm.jobs import submit, wait_end
from tests.slurm.process import until

pytestmark = pytest.mark.real

JOB = """\
#!/bin/bash
srun bash -c 'trap "echo task heard >>heard" USR1; ./child & wait; wait; wait' &
until [ -e up ]; do sleep 0.1; done
scancel -s USR1 "$SLURM_JOB_ID.0"
sleep 2
touch over
wait
"""
CHILD = """\
#!/bin/bash
trap 'echo child heard >>heard' USR1
touch up
until [ -e over ]; do sleep 0.1; done
"""


@pytest.mark.parametrize(
    ("proctrack", "heard"),
    [
        pytest.param(
            "cgroup",
            ["task heard"],
            marks=pytest.mark.skipif(cgroups.missing() != "", reason=cgroups.missing()),
        ),
        ("linuxproc", ["child heard", "task heard"]),
    ],
)
def test_a_signal_reaches(tmp_path: Path, proctrack: str, heard: list[str]) -> None:
    with Cluster.boot(tmp_path, nodes=[Node("n1")], proctrack=proctrack) as cluster:
        home = cluster.home()
        cluster.run(["bash", "-c", "cat >child && chmod +x child"], input=CHILD, check=True)
        job = submit(cluster, JOB, cwd=home)
        until((home / "over").exists, "the job to have signalled its step")
        assert wait_end(cluster, job) == "COMPLETED"
        assert sorted((home / "heard").read_text().splitlines()) == heard

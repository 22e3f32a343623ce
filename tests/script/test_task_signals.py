"""A signal reaches the program, also where its task's shell gets it alone; its end is known."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.script.renderer import render
from tests.plans import planned
from tests.script.jobs import BASH, ONE_PROCESS

HEAR = """\
for name in USR1 HUP TERM; do trap "echo $name >>heard" "$name"; done
echo >>ready
until [[ -e over ]]; do sleep 0.05; done
exit 5
"""
SRUN = """\
#!/bin/bash
while [[ $1 != bash ]]; do shift; done
echo $$ >task
SLURM_PROCID=0 SLURM_NODEID=0 SLURMD_NODENAME=n1 SLURM_NTASKS=1 exec "$@"
"""


def until_there(file: Path, words: int = 0) -> list[str]:
    end = time.monotonic() + 30
    while not file.exists() or len(file.read_text().split()) < words:
        assert time.monotonic() < end, f"{file} did not come"
        time.sleep(0.02)
    return file.read_text().split()


@pytest.mark.parametrize(
    ("cmd", "code"),
    [
        ("bash hear.sh", 5),
        ("true | bash hear.sh; exit 7", 5),
        ("nice -n 1 bash hear.sh", 5),
        ("trap : USR1 HUP TERM\nbash hear.sh\nexit 7", 7),
    ],
)
def test_the_program_hears_what_its_task_hears_alone(tmp_path: Path, cmd: str, code: int) -> None:
    """As below slurmstepd with control groups: the shell of the task is signalled, and nothing else."""
    (tmp_path / "hear.sh").write_text(HEAR)
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n")
    script = render(planned(run={"cmd": cmd})).replace("/proc/self/cgroup", f"{tmp_path}/cgroup")
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1"}
    job = subprocess.Popen(
        ["env", "--default-signal", BASH, "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **slurm},
    )
    until_there(tmp_path / "ready")
    [task] = until_there(tmp_path / "task", 1)
    for number, name in enumerate((signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM), 1):
        os.kill(int(task), name)
        until_there(tmp_path / "heard", number)
    (tmp_path / "over").touch()
    assert (job.wait(30), until_there(tmp_path / "heard")) == (code, ["USR1", "HUP", "TERM"])


def test_a_signal_at_the_moment_of_the_end_does_not_hide_it(tmp_path: Path) -> None:
    """The program signals the script as its last act: bash 5.2 forgets the exit code of one in ten then."""
    cmd = """perl -e '$SIG{USR1} = "IGNORE"; kill USR1, $ENV{SCRIPT}; exit 75'"""
    script = f"export SCRIPT=$$; trap : USR1\n{render(planned(ONE_PROCESS, run={'cmd': cmd}))}"
    words, own = [BASH, "-c", script], {"PATH": os.environ["PATH"]}
    codes = {subprocess.run(words, cwd=tmp_path, env=own, check=False).returncode for _ in range(50)}
    assert codes == {75}

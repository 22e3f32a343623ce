"""When a program is told of the time limit, and how long it then has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcdist.host.resources import template_folders

CLOCK = template_folders()[-1] / "runtime" / "clock.sh"


@pytest.mark.parametrize(
    ("notice", "rung", "grace"),
    [(300, "700 970", 10), (60, "940 970", 10), (30, "970 985", 5), (15, "985 993", 2)],
)
def test_a_program_is_killed_before_the_limit_however_short_the_notice(
    tmp_path: Path, notice: int, rung: str, grace: int
) -> None:
    lines = f"""\
. {CLOCK}
hpcdist_ring() {{ echo "$*" >rung; }}
declare -A hpcdist=([notice]='{notice} TERM')
SLURM_JOB_END_TIME=1000
hpcdist_watch_time
wait
echo "$(<rung) $hpcdist_grace"
"""
    env = {"PATH": os.environ["PATH"]}
    out = subprocess.check_output(["bash", "-c", lines], cwd=tmp_path, env=env, text=True)
    assert out == f"{rung} {grace}\n"

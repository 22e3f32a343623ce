"""When a program is told of the time limit, and how long it then has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcdist.host.resources import template_folders

CLOCK = template_folders()[-1] / "runtime" / "clock.sh"


@pytest.mark.parametrize(
    ("notice", "left", "rung", "grace"),
    [
        (300, 3600, "300 30", 10), (60, 3600, "60 30", 10), (30, 3600, "30 15", 5), (15, 3600, "15 7", 2),
        (300, 100, "50 25", 8), (300, 0, "0 0", 0),
    ],
)  # fmt: skip
def test_a_program_is_killed_before_the_limit_however_short_the_notice_and_the_time(
    tmp_path: Path, notice: int, left: int, rung: str, grace: int
) -> None:
    """Slurm shortens the limit of a job whose EndTime is set; a program that has just begun traps nothing."""
    lines = f"""\
. {CLOCK}
hpcdist_ring() {{ echo "$*" >rung; }}
declare -A hpcdist=([notice]='{notice} TERM')
printf() {{ now=1000; }}
SLURM_JOB_END_TIME={1000 + left}
hpcdist_watch_time
wait
echo "$(<rung) $hpcdist_grace"
"""
    env = {"PATH": os.environ["PATH"]}
    out = subprocess.check_output(["bash", "-c", lines], cwd=tmp_path, env=env, text=True)
    assert out == f"{1000 + left} {rung} {grace}\n"


def said(folder: Path, lines: str) -> str:
    """Run lines with the functions of the clock in bash, and return what they print."""
    before = 'hpcdist_call_if_there() { ! declare -F "$1" >/dev/null || "$@"; }\n'
    script = f"{before}. {CLOCK}\ndeclare -A hpcdist=([scheduler]=slurm)\n{lines}"
    return subprocess.check_output(
        ["bash", "-c", script], cwd=folder, env={"PATH": os.environ["PATH"]}, text=True
    )


@pytest.mark.parametrize(
    ("answer", "rung"), [("echo 1500", 1200), ("echo 900", 700), ("echo N/A", 700), ("return 1", 700)]
)
def test_the_notice_waits_where_the_limit_was_put_off(tmp_path: Path, answer: str, rung: int) -> None:
    lines = f"""\
time=600
printf() {{ now=$time; }}
sleep() {{ time=$((time + 50)); }}
kill() {{ [[ $1 == -0 ]] || echo "$time"; }}
end_slurm() {{ {answer}; }}
hpcdist_ring 1000 300
"""
    assert said(tmp_path, lines) == f"{rung}\n"


LATE = """\
hpcdist[restart]=requeue hpcdist[restart_on]='{on}' hpcdist[packed]={packed} hpcdist[rehearsal]={rehearsal}
hpcdist_attempts=. HPCDIST_ATTEMPT=3
ending_slurm() {{ echo {why}; }}
requeue_slurm() {{ echo asked; return {code}; }}
hpcdist_log_event() {{ echo "$*"; }}
hpcdist_meet_limit
hpcdist_meet_limit
echo "${{hpcdist_late:-0}} ${{hpcdist_end:-ended}}"
"""
MET = {"on": "failure timeout", "packed": "", "rehearsal": "", "why": "timeout", "code": "0"}


@pytest.mark.parametrize(
    ("change", "out"),
    [
        ({}, "asked\nagain timeout\n1 requeued\n"),
        ({"code": "1"}, "asked\n1 ended\n"),
        ({"why": "terminated"}, "0 ended\n"),
        ({"on": "failure"}, "0 ended\n"),
        ({"packed": "1"}, "1 ended\n"),
        ({"rehearsal": "1"}, "0 ended\n"),
    ],
)
def test_a_job_that_met_its_limit_before_it_acted_goes_into_the_queue_at_once(
    tmp_path: Path, change: dict[str, str], out: str
) -> None:
    assert said(tmp_path, LATE.format_map({**MET, **change})) == out
    why = tmp_path / "3.why"
    assert (why.read_text() if why.exists() else "") == ("timeout\n" if "asked" in out else "")

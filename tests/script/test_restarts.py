"""Attempts of a program in one job: which ends are followed by another one, on this machine."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hpcdist.runs.rundir import RunDirectory
from hpcdist.script.renderer import render
from tests.plans import planned
from tests.script.jobs import ONE_PROCESS, started


def ended(folder: Path, cmd: str, **restart: Any) -> tuple[int, str]:
    """Run a job whose program is restarted so, and return its exit code and its output."""
    with started(folder, run={"cmd": cmd}, environment={"restart": restart}) as job:
        out, _ = job.communicate(timeout=60)
    return job.returncode, out


def events(folder: Path) -> list[tuple[str, str]]:
    return [(event.what, event.value) for event in RunDirectory(folder / "run").events()]


WORK = (
    'echo "attempt $HPCDIST_ATTEMPT resumed $HPCDIST_RESUMED"; touch $HPCDIST_CHECKPOINTS/$HPCDIST_ATTEMPT; '
)


def test_a_program_that_fails_runs_again_until_it_ends_well(tmp_path: Path) -> None:
    code, out = ended(tmp_path, WORK + "[ $HPCDIST_ATTEMPT = 2 ] || exit 3")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("attempt")] == [
        "attempt 0 resumed 0",
        "attempt 1 resumed 1",
        "attempt 2 resumed 1",
    ]
    assert "exit code 3; restart 1 of 10" in out
    [begins, second] = [line for line in out.splitlines() if " begins " in line]
    assert begins.startswith("hpcdist: attempt 1 begins (job ")
    assert second.startswith("hpcdist: attempt 2 begins (job ")
    assert events(tmp_path) == [
        ("started", "0"),
        ("restarted", "3"),
        ("restarted", "3"),
        ("over", "completed"),
        ("ended", "0"),
    ]


@pytest.mark.parametrize(
    ("cmd", "restart", "attempts", "why"),
    [
        (WORK + "exit 4", {"max": 2}, 3, "failure; no more than 2 restarts"),
        ("exit 4", {"no_progress": 2}, 2, "failure; 2 attempts in a row left nothing new in "),
        (WORK + "exit 4", {"on": ["timeout"]}, 1, "there is no further attempt: failure"),
        (WORK + "exit 4", {"stop_on_exit": [7, 4]}, 1, "exit code 4"),
        (WORK + "[ $HPCDIST_ATTEMPT = 0 ] || touch halt; exit 4", {"stop_file": "halt"}, 2, "there is halt"),
    ],
)
def test_after_some_ends_there_is_no_further_attempt(
    tmp_path: Path, cmd: str, restart: dict[str, Any], attempts: int, why: str
) -> None:
    code, out = ended(tmp_path, cmd, **restart)
    assert code == 4
    assert why in out
    assert len([file for file in (tmp_path / "run/attempts").iterdir() if file.name.isdecimal()]) == attempts


def test_an_attempt_that_leaves_something_new_is_progress(tmp_path: Path) -> None:
    cmd = "[ $HPCDIST_ATTEMPT != 1 ] || touch $HPCDIST_OUTPUTS/model; [ $HPCDIST_ATTEMPT = 3 ] || exit 1"
    assert ended(tmp_path, cmd, no_progress=2)[0] == 0


def test_a_job_that_begins_after_the_last_attempt_runs_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, "echo once; exit 5", on=["timeout"])[0] == 5
    done = subprocess.run(["bash", "job.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "once" not in done.stdout
    assert " begins " not in done.stdout
    assert "nothing is left to do: the last attempt was over (failure)" in done.stdout
    assert events(tmp_path)[-2:] == [("skipped", "0"), ("ended", "5")]


def test_exit_code_0_after_the_signal_before_the_time_limit_means_finished_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    data: dict[str, Any] = {
        "run": {"cmd": "trap 'exit 0' USR1; while :; do sleep 0.1; done"},
        "environment": {"restart": {"notice": "30s"}},
    }
    limit = {"SLURM_JOB_END_TIME": str(int(time.time()) + 31)}
    with started(tmp_path, environ=limit, **data) as job:
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 0
    assert (
        "the program ended with exit code 0 after USR1, and so is finished; if it is not, let it end" in out
    )
    assert events(tmp_path)[1:] == [("notice", "USR1"), ("over", "completed"), ("ended", "0")]


FILLED = """\
mount -t tmpfs -o size=400k none "$0" && cd "$0" && cp ../job.sh . && bash job.sh
ls run/attempts >../attempts
"""


def test_an_attempt_that_cannot_be_recorded_has_not_begun(tmp_path: Path) -> None:
    fill = "cat /dev/zero >$HPCDIST_CHECKPOINTS/big 2>/dev/null; exit 3"
    small = tmp_path / "small"
    small.mkdir()
    text = render(planned(ONE_PROCESS, run={"cmd": fill}, environment={"restart": {}}), run_dir="run")
    (tmp_path / "job.sh").write_text(text)
    words: list[str | Path] = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", FILLED, small]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "is the disk full" in done.stderr
    assert (tmp_path / "attempts").read_text().split() == ["0", "0.idle", "0.why"]


@pytest.mark.parametrize(("on", "code"), [(["failure", "timeout"], 86), (["failure", "node_failure"], 0)])
def test_what_ended_from_outside_goes_on_only_if_it_is_to(tmp_path: Path, on: list[str], code: int) -> None:
    (tmp_path / "run" / "attempts").mkdir(parents=True)
    (tmp_path / "run" / "attempts" / "0").write_text("1\n")  # whose end nobody wrote
    found, out = ended(tmp_path, "echo attempt $HPCDIST_ATTEMPT", on=on)
    assert (found, "attempt 1\n" in out, "it was ended from outside" in out) == (code, code == 0, code != 0)

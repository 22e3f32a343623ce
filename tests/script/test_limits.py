"""The limits of a search, which each trial keeps as it starts: what it reads of the event log, and finds."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from hpcdist.host.resources import template_folders

RUNTIME = template_folders()[-1] / "runtime"

SEARCH = f"""\
declare -A hpcdist=([budget]=400 [cost]=60 [trial_gpus]=2 [max_failures]=4)
HPCDIST_RUN_DIR=$PWD
. {RUNTIME}/trials.sh
tail() {{ command tail "$@" | tee -a read; }}
start() {{ # trial $1 at time $2; prints why it may not
  HPCDIST_JOB_ID=7_$1 HPCDIST_JOB_DIR=$PWD/${{folder:-.}}
  hpcdist_read_limits
  echo "started 7_$1 $2 0" >>events
  hpcdist_over_limits "${{hpcdist[budget]}}"
}}
again() {{ hpcdist_limits='' && hpcdist_over_limits "${{hpcdist[budget]}}"; }}
"""


def said(folder: Path, lines: str) -> str:
    """Return what lines print in the shell of a job of this search."""
    done = subprocess.run(
        ["bash", "-c", SEARCH + lines],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def sequence(seed: int, trials: int, at_once: int) -> str:
    """Return lines that start and end trials in some order; some are lost, and one is resumed in between."""
    chance, running, lines = random.Random(seed), list[int](), list[str]()  # noqa: S311
    for trial in range(1, trials + 1):
        lines.append(f'start {trial} {10 * trial} >one; again >two; echo "{trial}: $(<one)"')
        lines.append("cmp one two")
        running.append(trial)
        while len(running) >= at_once:
            ended = running.pop(chance.randrange(len(running)))
            code = chance.choice(["0"] * 9 + ["1", "unknown", "85"])
            if chance.random() < 0.9:
                lines.append(f'echo "ended 7_{ended} {10 * trial + 5} {code}" >>events')
        if trial == trials // 2:
            lines.append('echo "resumed 7 1 0" >>events')
    return "\n".join(lines)


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(3))
def test_a_trial_finds_what_the_whole_log_comes_to(tmp_path: Path, seed: int) -> None:
    printed = said(tmp_path, sequence(seed, 30, 1 + seed))
    assert [line.partition(":")[0] for line in printed.splitlines()] == [str(one) for one in range(1, 31)]
    assert "GPU-hours are spent" in printed or "trials have failed" in printed


def test_each_trial_reads_what_is_new_in_the_log(tmp_path: Path) -> None:
    """Ten thousand trials that read all of it would read gigabytes."""
    lines = "for ((n = 1; n <= 100; n++)); do start $n $n; echo ended 7_$n $n 0 >>events; done"
    assert said(tmp_path, f"hpcdist[budget]=1e9\n{lines}") == ""
    assert (tmp_path / "read").stat().st_size < 3 * (tmp_path / "events").stat().st_size


def test_two_that_start_at_once_do_not_both_take_what_is_left(tmp_path: Path) -> None:
    """What the second wrote is behind the start of the first, which therefore reads the log anew."""
    lines = """\
hpcdist[budget]=100
hpcdist_read_limits; echo "started 7_1 1 0" >>events
start 2 1; echo
HPCDIST_JOB_ID=7_1; hpcdist_over_limits 100; echo .
HPCDIST_JOB_ID=7_3; hpcdist_read_limits; echo "started 7_3 2 0" >>events
HPCDIST_JOB_ID=7_1; hpcdist_over_limits 100
"""
    assert said(tmp_path, lines) == (
        "0 GPU-hours are spent, 2 trials that run may take 0.03333, and the budget is 0.02778\n.\n"
    )


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param("upto 9\nspent 9999999.000\nwhole\n", id="of another log: not at the end of a line"),
        pytest.param("upto 99999\nspent 9999999.000\nwhole\n", id="of a longer log"),
        pytest.param("upto 1\nspent 99999", id="cut short"),
        pytest.param("", id="empty"),
        pytest.param("?" * 99, id="damaged"),
    ],
)
def test_what_is_kept_of_another_log_does_not_count(tmp_path: Path, kept: str) -> None:
    (tmp_path / "events").write_text("started 7_1 1 0\nended 7_1 3 0\n")
    (tmp_path / "limits").write_text(kept)
    assert said(tmp_path, "start 2 5") == ""
    assert (tmp_path / "limits").read_text() == "upto 46\nspent 4.000\nstarted 7_2 5 0\nwhole\n"


def test_what_cannot_be_kept_keeps_no_trial_from_its_start(tmp_path: Path) -> None:
    assert said(tmp_path, "folder=missing; start 1 1; start 2 2") == ""
    assert not (tmp_path / "limits").exists()

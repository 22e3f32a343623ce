"""Attempts of a program in one job: which ends are followed by another one, on this machine."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hpcdist.runs.rundir import RunDirectory
from tests.plans import planned
from tests.script.jobs import ONE_PROCESS, started, write

LIMITED: dict[str, Any] = {"environment": {"restart": {}}, "batch": {"walltime": "1h"}}
"""A job with a clock, whose next signal is due at once when it gets URG."""


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


@pytest.mark.extended
@pytest.mark.parametrize(
    ("cmd", "restart", "attempts", "why"),
    [
        (WORK + "exit 4", {"max": 2}, 3, "failure; no more than 2 restarts"),
        (WORK + "exit 4", {"max": 0}, 1, "failure; no more than 0 restarts"),
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


TRACKED = 'python3 -c "import hpcdist_tracking as at; at.log_metrics(step=STEP, loss=0.5, best=1)"'


@pytest.mark.extended
@pytest.mark.parametrize(
    ("step", "files", "attempts"),
    [("5", "touch $HPCDIST_OUTPUTS/log.$HPCDIST_ATTEMPT", 3), ("$HPCDIST_ATTEMPT", ":", 4), ("5", ":", 3)],
)
def test_where_steps_are_tracked_one_must_be_reached_for_the_first_time(
    tmp_path: Path, step: str, files: str, attempts: int
) -> None:
    cmd = f"{files}; {TRACKED.replace('STEP', step)}; exit 4"
    code, out = ended(tmp_path, cmd, no_progress=2, max=3)
    assert (code, out.count("exit code 4; restart")) == (4, attempts - 1)
    stopped = "2 attempts in a row tracked no step that an earlier one had not reached"
    assert (stopped in out) == (attempts == 3)
    last = tmp_path / f"run/attempts/{attempts - 1}.steps"
    assert last.read_text() == f"{step if step == '5' else attempts - 1} loss\n"


def test_hangup_ends_a_training_as_term_does(tmp_path: Path) -> None:
    cmd = "trap 'exit 129' HUP; echo up; while :; do sleep 0.1; done"
    data: dict[str, Any] = {"run": {"cmd": cmd}, "environment": {"restart": {}}}
    with started(tmp_path, **data) as job:
        assert job.stdout is not None
        assert any(line == "up\n" for line in job.stdout)
        job.send_signal(signal.SIGHUP)
        job.communicate(timeout=60)
    assert (tmp_path / "run/attempts/0.why").read_text() == "terminated\n"
    assert [what for what, _ in events(tmp_path)] == ["started", "ended"]


def test_a_job_that_begins_after_the_last_attempt_runs_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, "echo once; exit 5", on=["timeout"])[0] == 5
    done = subprocess.run(["bash", "run/job.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "once" not in done.stdout
    assert " begins " not in done.stdout
    assert "nothing is left to do: the last attempt was over (failure)" in done.stderr
    assert events(tmp_path)[-2:] == [("skipped", "0"), ("ended", "5")]


def test_a_job_of_a_cancelled_run_begins_no_attempt(tmp_path: Path) -> None:
    """Its submission was under way when the user cancelled the run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/cancelled").touch()
    code, out = ended(tmp_path, "echo program")
    assert (code, "program" in out) == (143, False)
    assert "the run was cancelled, so that no attempt begins" in out
    assert events(tmp_path)[1:] == [("cancelled", "0"), ("ended", "143")]


REQUEUED = """\
sed -i "s/ $0 / $$ /; s/^$0 /$$ /" run/events run/attempts/0
mv run/jobs/$0 run/jobs/$$
exec bash run/job.sh
"""
"""Runs a job once more under its id, which is that of the process."""


def test_steps_after_the_program_in_which_a_job_was_lost_run_again_without_it(tmp_path: Path) -> None:
    lost = "touch lost; kill -KILL $PPID"
    finish = f"echo after $HPCDIST_ATTEMPT $HPCDIST_EXIT_CODE; [[ -e lost ]] || {{ {lost}; }}"
    data: dict[str, Any] = {
        "run": {"cmd": "echo program", "finish": {"cmd": finish}},
        "environment": {"restart": {}},
    }
    with started(tmp_path, **data) as job:
        out, _ = job.communicate(timeout=60)
    assert (job.returncode, "program" in out) == (-signal.SIGKILL, True)
    assert [what for what, _ in events(tmp_path)] == ["started", "over", "finishing"]
    words = ["bash", "-c", REQUEUED, str(job.pid)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "program\n" in done.stdout, "after 0 0\n" in done.stdout) == (0, False, True)
    assert events(tmp_path)[3:] == [("started", "1"), ("skipped", "0"), ("finishing", "0"), ("ended", "0")]


def test_exit_code_0_after_the_signal_before_the_time_limit_means_finished_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    cmd = "trap 'exit 0' USR1; echo up; while :; do sleep 0.1; done"
    with started(tmp_path, run={"cmd": cmd}, **LIMITED) as job:
        assert job.stdout is not None
        assert any(line == "up\n" for line in job.stdout)
        job.send_signal(signal.SIGURG)
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 0
    assert (
        "the program ended with exit code 0 after USR1, and so is finished; if it is not, let it end" in out
    )
    assert events(tmp_path)[1:] == [("notice", "USR1"), ("over", "completed"), ("ended", "0")]


QUIET = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); SIGNAL"
QUIET += "; print('up', flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("signals", "why", "marks"),
    [
        ([signal.SIGTERM], "terminated", []),
        # USR1 before the time limit, then TERM.
        ([signal.SIGURG] * 2, "timeout", [("notice", "USR1"), ("timeout", "0"), ("over", "timeout")]),
    ],
)
@pytest.mark.parametrize(
    "cmd",
    [
        "exec python3 -c "
        + shlex.quote(QUIET.replace("SIGNAL", "signal.signal(signal.SIGUSR1, signal.SIG_IGN)")),
        "trap 'exit 0' TERM; trap : USR1; echo up; while :; do sleep 0.1; done",
        "trap 'exit 0' TERM; trap : USR1; echo up; while :; do sleep 0.1; done; mpirun train",  # no wrapper
    ],
)
def test_exit_code_0_after_term_is_no_success(
    tmp_path: Path, cmd: str, signals: list[int], why: str, marks: list[tuple[str, str]]
) -> None:
    with started(tmp_path, run={"cmd": cmd}, **LIMITED) as job:
        assert job.stdout is not None
        assert any(line == "up\n" for line in job.stdout)
        for number in signals:
            job.send_signal(number)
            time.sleep(0.5)  # two of a kind would be one
        out, _ = job.communicate(timeout=60)
    assert (job.returncode, (tmp_path / "run/attempts/0.why").read_text()) == (143, f"{why}\n")
    assert events(tmp_path)[1:] == [*marks, ("ended", "143")]
    assert "ended with exit code 0 when it was told to end" in out


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_exit_code_0_after_such_a_notice_is_no_success(tmp_path: Path, name: str) -> None:
    """Hugging Face's Trainer saves at TERM, and ends well."""
    cmd = f"trap 'exit 0' {name}; echo up; while :; do sleep 0.1; done"
    policy = {"restart": {"signal": name}}
    with started(tmp_path, run={"cmd": cmd}, environment=policy, batch={"walltime": "1h"}) as job:
        assert job.stdout is not None
        assert any(line == "up\n" for line in job.stdout)
        job.send_signal(signal.SIGURG)
        out, _ = job.communicate(timeout=60)
    assert (job.returncode, events(tmp_path)[1:3]) == (143, [("notice", name), ("timeout", "0")]), out


FILLED = """\
cp -r "$0" copy && mount -t tmpfs -o size=900k none "$0" && cd "$0" && cp -r ../copy/run . && bash run/job.sh
echo "$?" >../ends
ls run/attempts >../attempts
rm run/checkpoints/big && bash run/job.sh
echo "$?" >>../ends
"""


def filled(folder: Path, end: str, **restart: Any) -> subprocess.CompletedProcess[str]:
    """Run a job whose program fills the disk and ends so; then make room and run it once more."""
    (folder / "small").mkdir()
    fill = f"cat /dev/zero >$HPCDIST_CHECKPOINTS/big 2>/dev/null; {end}"
    plan = planned(ONE_PROCESS, run={"cmd": fill}, environment={"restart": restart})
    write(folder / "small" / "run", plan)
    words: list[str | Path] = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", FILLED]
    return subprocess.run([*words, folder / "small"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.namespaces
def test_an_attempt_that_cannot_be_recorded_has_not_begun(tmp_path: Path) -> None:
    done = filled(tmp_path, "exit 3")
    assert "is the disk full" in done.stderr
    assert (tmp_path / "attempts").read_text().split() == ["0", "0.idle", "0.why", "end"]


@pytest.mark.namespaces
@pytest.mark.parametrize(("end", "why"), [(0, "completed"), (3, "failure")])
def test_the_last_end_is_recorded_on_a_full_disk_and_nothing_begins_after_it(
    tmp_path: Path, end: int, why: str
) -> None:
    done = filled(tmp_path, f"exit {end}", on=["timeout"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ends").read_text().split() == [str(end), str(end)]
    assert f"nothing is left to do: the last attempt was over ({why})" in done.stderr
    assert (tmp_path / "attempts").read_text().split() == ["0", "0.why", "over"]


def test_what_a_killed_launcher_leaves_does_not_live_beside_the_next_attempt(tmp_path: Path) -> None:
    """The command's shell is killed, and what it had started would go on."""
    cmd = """\
[ $HPCDIST_ATTEMPT = 0 ] || { grep -q sleep /proc/$(cat left)/cmdline && exit 4; exit 0; }
setsid sleep 600 &
echo $! >left
kill -KILL $$
"""
    assert ended(tmp_path, cmd)[0] == 0

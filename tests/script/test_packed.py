"""Packed trials in a script: each runs once, as a job of its own, and is returned if it cannot end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hpcdist.plan.trials import TrialTexts
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script.trial_table import table
from hpcdist.searches import trials
from tests.plans import TESTBED
from tests.script.jobs import ONE_PROCESS, started

TWO_GPUS = {"CUDA_VISIBLE_DEVICES": "0,1"}
WAIT = "echo $HPCDIST_TRIAL >>ready; exec sleep 20"


def search(folder: Path, cmd: str, trials: int, at_once: int = 2, **data: Any) -> dict[str, Any]:
    """Write the table of the trials, and return the keys of their experiment."""
    (folder / "run").mkdir(exist_ok=True)
    texts = [TrialTexts({"n": str(one)}, cmd, {"N": str(one)}, one) for one in range(1, trials + 1)]
    (folder / "run" / "trials.tsv").write_text(table(texts))
    matrix = {"n": {"range": [1, trials + 1, 1]}}
    return {"run": {"cmd": cmd}, "hptuning": {"matrix": matrix, "concurrency": at_once}, **data}


def job(folder: Path, cmd: str, trials: int, at_once: int = 2, **data: Any) -> subprocess.Popen[str]:
    return started(folder, ONE_PROCESS, **search(folder, cmd, trials, at_once, **data))


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def events(folder: Path) -> Counter[tuple[str, int, str]]:
    """Return what the workers' logs have: each event with its trial and its value."""
    lines = "".join(log.read_text() for log in (folder / "run").glob("events.*@*")).splitlines()
    rows = [line.split() for line in lines]
    return Counter((row[0], int(row[1].rpartition("_")[2]), row[3]) for row in rows)


def names(folder: Path, below: str) -> list[str]:
    return sorted(path.name for path in (folder / "run" / below).iterdir())


def runs(pid: str) -> bool:
    """Whether a process runs; one that ended may still be listed."""
    file = Path("/proc", pid, "cmdline")
    return file.exists() and bool(file.read_bytes())


def until(folder: Path, lines: int) -> None:
    """Wait until so many trials have printed that they are ready."""
    for _ in range(600):
        if (folder / "ready").exists() and len((folder / "ready").read_text().split()) >= lines:
            return
        time.sleep(0.05)
    raise AssertionError("the trials do not start")


def test_a_trial_runs_as_a_job_of_its_own(tmp_path: Path) -> None:
    shown = [
        "RANK",
        "SIZE",
        "LOCAL_RANK",
        "LOCAL_SIZE",
        "NODE",
        "NODES",
        "TRIAL",
        "JOB_ID",
        "JOB_DIR",
        "OUTPUTS",
        "CHECKPOINTS",
        "TRACKING",
        "PORT",
        "HEAD_ADDRESS",
    ]
    cmd = "\n".join(f"echo {name}=$HPCDIST_{name}" for name in shown) + "\necho $PMI_RANK $RANK/$WORLD_SIZE"
    cmd += "\nsleep 2"  # so that no worker has both
    process = started(
        tmp_path, ONE_PROCESS, {"PMI_RANK": "7"}, **search(tmp_path, cmd, 2, framework="pytorch")
    )
    assert ended(process)[0] == 0
    run, number = tmp_path / "run", process.pid
    logs = {trial: (run / "logs" / f"job-{trial}.out").read_text().splitlines() for trial in (1, 2)}
    ports = {int(line[5:]) for lines in logs.values() for line in lines if line.startswith("PORT=")}
    assert len(ports) == 2
    assert max(ports) - min(ports) == 16
    for trial, lines in logs.items():
        assert [line for line in lines[1:] if not line.startswith("PORT=")] == [
            "RANK=0",
            "SIZE=1",
            "LOCAL_RANK=0",
            "LOCAL_SIZE=1",
            "NODE=0",
            "NODES=1",
            f"TRIAL={trial}",
            f"JOB_ID={number}_{trial}",
            f"JOB_DIR={run}/jobs/{number}_{trial}",
            f"OUTPUTS={run}/outputs/{trial}",
            f"CHECKPOINTS={run}/checkpoints/{trial}",
            f"TRACKING={run}/tracking/{number}_{trial}/0.0",
            "HEAD_ADDRESS=127.0.0.1",
            "0/1",
        ]
        assert (run / "jobs" / f"{number}_{trial}" / "nodes.0").read_text() == "localhost\n"


def test_a_failing_trial_leaves_the_others_and_its_code_is_the_jobs(tmp_path: Path) -> None:
    code, out = ended(job(tmp_path, "(($N != 2)) || exit 5", 4, 1))
    assert (code, events(tmp_path)["ended", 2, "5"], events(tmp_path)["ended", 4, "0"]) == (5, 1, 1)
    log = tmp_path / "run" / "logs" / "job-2.out"
    assert f"hpcdist: trial 2 failed with exit code 5; its output is {log}\n" in out
    assert log.read_text().endswith(f"hpcdist: trial 2 failed on {os.uname().nodename} (exit code 5)\n")


@pytest.mark.extended
@pytest.mark.parametrize("name", ["TERM", "INT", "XCPU"])
def test_a_job_at_its_limit_returns_its_trials_and_a_later_one_ends_them(tmp_path: Path, name: str) -> None:
    process = job(tmp_path, WAIT, 4)
    until(tmp_path, 2)
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert ended(process)[0] == 143
    assert events(tmp_path) == Counter(
        {(what, n, value): 1 for n in (1, 2) for what, value in (("started", "0"), ("returned", "143"))}
    )
    assert names(tmp_path, "again") == ["1.1", "2.1"]
    cmd = "echo $HPCDIST_TRIAL ${HPCDIST_TRACKING##*/} $HPCDIST_ATTEMPT $HPCDIST_RESUMED >>ran"
    assert ended(job(tmp_path, cmd, 4))[0] == 0
    ran = sorted((tmp_path / "ran").read_text().splitlines())
    assert (ran, names(tmp_path, "again")) == (["1 1.0 1 1", "2 1.0 1 1", "3 0.0 0 0", "4 0.0 0 0"], [])


def test_a_cancelled_trial_ends_alone_and_is_not_run_again(tmp_path: Path) -> None:
    """Of two that run the first is cancelled, and of two that wait the last; the others end by themselves."""
    cmd = "trap 'exit 7' TERM; echo $N >>ready; sleep $((N == 1 ? 20 : 3)) & wait"
    process = job(tmp_path, cmd, 4)
    until(tmp_path, 2)
    for trial in (1, 4):
        trials.mark_cancelled(RunDirectory(tmp_path / "run"), trial)
    assert ended(process)[0] == 0
    ends = {1: ("cancelled", "7"), 2: ("ended", "0"), 3: ("ended", "0"), 4: ("cancelled", "143")}
    assert events(tmp_path) == Counter(
        {("started", n, "0"): 1 for n in ends} | {(what, n, code): 1 for n, (what, code) in ends.items()}
    )
    assert (sorted((tmp_path / "ready").read_text().split()), names(tmp_path, "again")) == (
        ["1", "2", "3"],
        [],
    )


def test_a_trial_that_a_policy_ends_is_no_failure_and_runs_once(tmp_path: Path) -> None:
    """Both are worse than the first one; the second one exits with a code of its own, as launchers do."""
    program = "from hpcdist_tracking import log_metrics; log_metrics(step=1, loss=min(2, $N))"
    data = search(
        tmp_path, f'{sys.executable} -c "{program}"; code=$?; (($N != 2)) || code=5; exit $code', 3, 1
    )
    policy = {"kind": "median", "min_samples": 1}
    data["hptuning"]["early_stopping"] = [{"metric": "loss", "optimization": "minimize", "policy": policy}]
    data["environment"] = {"max_restarts": 1}
    code, out = ended(started(tmp_path, ONE_PROCESS, **data))
    ends = {1: ("ended", "0"), 2: ("pruned", "5"), 3: ("pruned", "83")}
    assert (code, events(tmp_path)) == (
        0,
        Counter(
            {("started", n, "0"): 1 for n in ends} | {(what, n, end): 1 for n, (what, end) in ends.items()}
        ),
    ), out
    assert "its best value is worse than the median" in (tmp_path / "run" / "logs" / "job-3.out").read_text()


def test_a_job_of_one_trial_that_a_policy_ends_is_no_failure_either(tmp_path: Path) -> None:
    cmd = "echo loss 3 at step 2 >$HPCDIST_FAILURE.pruned; exit 83"
    code, out = ended(started(tmp_path, ONE_PROCESS, run={"cmd": cmd}))
    log = (tmp_path / "run" / "events").read_text().splitlines()
    assert (code, [(line.split()[0], line.split()[3]) for line in log]) == (
        0,
        [("started", "0"), ("pruned", "83"), ("ended", "0")],
    )
    assert "hpcdist: this trial has ended early, by loss 3 at step 2\n" in out


def test_the_script_returns_what_a_killed_worker_had_claimed(tmp_path: Path) -> None:
    process = job(tmp_path, "echo $PPID >worker; echo $N >>ready; exec sleep 20", 3, 1)
    until(tmp_path, 1)
    time.sleep(0.2)
    os.kill(int((tmp_path / "worker").read_text()), signal.SIGKILL)
    code, _ = ended(process)
    assert code == 137
    assert (events(tmp_path)["returned", 1, "unknown"], names(tmp_path, "again")) == (1, ["1.1"])


def test_a_stop_with_the_last_trial_is_no_failure(tmp_path: Path) -> None:
    assert ended(job(tmp_path, f"touch {tmp_path}/run/stop", 1, 1))[0] == 0


def test_a_further_job_starts_only_within_what_the_budget_has_left(tmp_path: Path) -> None:
    """The first took 2 GPUs for 8 s in two starts: of 28 GPU-seconds 12 are left; this may take 20, others 6.

    It wrote no end of the second, but the accounting had it.
    """
    environment = {"resources": {"gpu": {"requests": 1}}}
    run = tmp_path / "run"
    (run / "jobs" / "9").mkdir(parents=True)
    (run / "jobs" / "9" / "cost").write_text("cost 9 2 20\n")
    log = "started 9 1 0\nrequeued 9 5 143\nstarted 9 105 1\nended 9_1 108 0\naccounted 9 109 0\n"
    (run / "events").write_text(log)

    def further(at_once: int, walltime: str) -> tuple[int, str]:
        data = search(tmp_path, "true", 2, at_once, environment=environment)
        batch = {"budget": 0.008, "walltime": walltime}
        return ended(started(tmp_path, ONE_PROCESS, TWO_GPUS, **data, batch=batch))

    code, out = further(2, "10s")
    assert (code, events(tmp_path)) == (85, Counter())
    assert (
        "0.004444 GPU-hours are spent, 1 jobs that run may take 0.005556, and the budget is 0.007778" in out
    )
    assert further(1, "6s")[0] == 0


def test_two_trials_share_each_gpu(tmp_path: Path) -> None:
    environment = {"resources": {"gpu": {"requests": 1, "trials_per_gpu": 2}}}
    data = search(tmp_path, "echo $CUDA_VISIBLE_DEVICES >>gpus; sleep 2", 4, 4, environment=environment)
    assert ended(started(tmp_path, ONE_PROCESS, TWO_GPUS, **data))[0] == 0
    assert sorted((tmp_path / "gpus").read_text().split()) == ["0", "0", "1", "1"]


def test_a_table_that_was_cut_short_runs_what_is_whole(tmp_path: Path) -> None:
    data = search(tmp_path, "echo $HPCDIST_TRIAL >>ran", 2, 1)
    whole = (tmp_path / "run" / "trials.tsv").read_text()
    (tmp_path / "run" / "trials.tsv").write_text(whole[:-3])
    assert ended(started(tmp_path, ONE_PROCESS, **data))[0] == 86
    assert (tmp_path / "ran").read_text().splitlines() == ["1"]
    assert "has no trial for element 2" in (tmp_path / "run" / "logs" / "job-2.out").read_text()


def test_nothing_outlives_a_launcher_that_was_killed_and_its_trials_are_returned_once(tmp_path: Path) -> None:
    process = job(tmp_path, "echo $$ >>pids; echo $N >>ready; exec sleep 20", 6)
    until(tmp_path, 2)
    launchers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in launchers:
        os.kill(int(pid), signal.SIGKILL)
    assert ended(process)[0] == 137
    assert [pid for pid in (tmp_path / "pids").read_text().split() if runs(pid)] == []
    assert events(tmp_path) == Counter(
        {(what, n, value): 1 for n in (1, 2) for what, value in (("started", "0"), ("returned", "unknown"))}
    )


TOOL = """\
#!/bin/bash
# Stands for srun, which starts two workers, and what Slurm is asked by.
case ${0##*/} in
srun)
  while [[ $1 != bash ]]; do shift; done
  set -m
  for SLURM_PROCID in 0 1; do
    export SLURM_PROCID SLURM_NODEID=0 SLURMD_NODENAME=n1 SLURM_NTASKS=2
    "$@" &
    echo $! >>tasks
  done
  wait %1
  code=$?
  wait %2 || code=$?
  exit "$code"
  ;;
scancel) kill -s "$2" -- $(sed s/^/-/ tasks) ;;
scontrol) [[ $1 == show ]] && echo JobId=7 JobState=RUNNING || echo "$*" >>asked ;;
esac
"""


def at_its_limit(folder: Path, cmd: str, restart: dict[str, Any], ready: int = 2) -> tuple[int, str]:
    """Run a job of four trials in Slurm's queue, whose notice comes when so many are ready."""
    (folder / "bin").mkdir()
    for name in ("srun", "scancel", "scontrol", "squeue"):
        (folder / "bin" / name).write_text(TOOL)
        (folder / "bin" / name).chmod(0o755)
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1"}
    environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
    environment = {"restart": restart, "resources": {"gpu": {"requests": 1}}}
    data = search(folder, cmd, 4, environment=environment, batch={"pack": True, "walltime": "1h"})
    process = started(folder, TESTBED, {**environ, **TWO_GPUS}, **data)
    until(folder, ready)
    process.send_signal(signal.SIGURG)
    return ended(process)


def test_a_job_with_trials_left_goes_into_the_queue_again_before_its_time_limit(tmp_path: Path) -> None:
    cmd = "echo $N >>$HPCDIST_CHECKPOINTS/ran; echo $N $HPCDIST_RESUMED >>ran; echo $N >>ready"
    code, out = at_its_limit(tmp_path, f"{cmd}; (($N == 2 || $N == 3)) || exec sleep 20", {}, ready=4)
    assert (code, "hpcdist: timeout: this job is in the queue again\n" in out) == (143, True), out
    log = [line.split()[::3] for line in (tmp_path / "run" / "events").read_text().splitlines()]
    assert log == [["started", "0"], ["notice", "TERM"], ["again", "timeout"], ["requeued", "143"]]
    assert (tmp_path / "asked").read_text() == "requeue Incomplete 7\n"
    assert names(tmp_path, "again") == ["1.1", "4.1"]
    assert ended(job(tmp_path, cmd, 4))[0] == 0
    assert sorted((tmp_path / "ran").read_text().splitlines()) == ["1 0", "1 1", "2 0", "3 0", "4 0", "4 1"]
    kept = {name: (tmp_path / "run" / "checkpoints" / name / "ran").read_text() for name in ("1", "2")}
    assert kept == {"1": "1\n1\n", "2": "2\n"}


def test_a_search_that_is_stopped_or_done_is_not_requeued(tmp_path: Path) -> None:
    both = (
        "echo >>up; until (($(wc -l <up) == 2)); do sleep 0.1; done"  # a worker begins no trial after a stop
    )
    code, _ = at_its_limit(tmp_path, f"{both}; touch {tmp_path}/run/stop; {WAIT}", {})
    assert (code, (tmp_path / "asked").exists()) == (143, False)

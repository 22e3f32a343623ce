"""Packed trials: each runs once, as a job of its own, and is returned if it cannot end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from supervisor import packed
from supervisor.batch import System
from supervisor.job import read
from supervisor.start import Failed, Start

from hpcdist.base.resources import template_folders
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script.trial_table import table
from hpcdist.searches import trials
from tests.plans import planned
from tests.script.jobs import ONE_PROCESS
from tests.supervisor.starts import POLICY, start

PROGRAM = template_folders()[-1] / "runtime" / "packed.py"
TEXT = """\
export HPCDIST_RANK=0 HPCDIST_SIZE=1 HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=0
eval "$HPCDIST_VARIABLES"
HPCDIST_PROGRAM=$'trap \\'exit $(($? ? $? : 143))\\' TERM INT HUP\\ntrap : USR1 USR2\\n'$HPCDIST_PROGRAM
exec bash -c "$HPCDIST_PROGRAM"
"""
WAIT = "echo $HPCDIST_TRIAL >>ready; exec sleep 20"
NODE = os.uname().nodename

Words = tuple[Path | str, ...]


class Workers:
    """One start of job 9, of trials with this command, and its workers, which are processes of this one."""

    def __init__(
        self,
        folder: Path,
        cmd: str,
        trials: int,
        at_once: int = 2,
        *,
        words: Words = (PROGRAM, TEXT),
        **data: Any,
    ) -> None:
        run, matrix = folder / "run", {"n": {"range": [1, trials + 1, 1]}}
        run.mkdir(exist_ok=True)
        search = {"matrix": matrix, "concurrency": at_once, **data.pop("hptuning", {})}
        plan = planned(ONE_PROCESS, run={"cmd": cmd}, hptuning=search, **data)
        (run / "plan.json").write_bytes(msgspec.json.encode(plan))
        rows = [TrialTexts({"n": str(one)}, cmd, {"N": str(one)}, one) for one in range(1, trials + 1)]
        (run / "trials.tsv").write_text(table(rows))
        self.folder, self.words, self.start = folder, words, Start(read(str(run)), "9", "")
        self.start.open()
        self.start.nodes = ["localhost"]
        self.start.restarts = [one.what for one in self.start.own_events()].count("started")
        self.start.log("started", self.start.restarts)
        packed.begin(self.start, System(os.environ, self.start.job))
        self.start.write_nodes()
        self.processes = [self.worker(rank) for rank in range(at_once)]

    def worker(self, rank: int) -> subprocess.Popen[str]:
        base = {"PATH": os.environ["PATH"], "PMI_RANK": "7", "HPCDIST_SIZE": "2"}
        own = {"HPCDIST_RANK": str(rank), "HPCDIST_LOCAL_RANK": str(rank), "HPCDIST_NODE": "0"}
        return subprocess.Popen(
            ["env", "--default-signal", sys.executable, "-ISB", *self.words],
            cwd=self.folder, env=self.start.environment({**base, **own}), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def signal(self, name: str) -> None:
        """Send a signal to all processes, as launchers do."""
        for process in self.processes:
            os.killpg(process.pid, getattr(signal, f"SIG{name}"))

    def end(self) -> tuple[int, str]:
        """Return the exit code of the job, and what its workers printed."""
        said = "".join(process.communicate(timeout=60)[0] for process in self.processes)
        codes = [code for process in self.processes if (code := process.returncode)]
        code = packed.end(self.start, codes[0] if codes else 0)
        self.start.log("ended", code)
        return code, said


def until(file: Path, words: int = 0) -> None:
    """Wait until programs have written so many words."""
    end = time.monotonic() + 30
    while not file.exists() or len(file.read_text().split()) < words:
        assert time.monotonic() < end, "the trials do not start"
        time.sleep(0.02)


def events(folder: Path) -> Counter[tuple[str, int, str]]:
    """Return what the workers' logs have: each event with its trial and its value."""
    lines = "".join(log.read_text() for log in (folder / "run").glob("events.*@*")).splitlines()
    rows = [line.split() for line in lines]
    return Counter((row[0], int(row[1].rpartition("_")[2]), row[3]) for row in rows)


def all_of(ends: dict[int, tuple[str, str]]) -> Counter[tuple[str, int, str]]:
    """Return the events of trials that started once, and ended so."""
    return Counter(
        [*(("started", n, "0") for n in ends), *((what, n, code) for n, (what, code) in ends.items())]
    )


def names(folder: Path, below: str) -> list[str]:
    return sorted(path.name for path in (folder / "run" / below).iterdir())


def test_many_workers_run_each_trial_once(tmp_path: Path) -> None:
    assert Workers(tmp_path, "echo $HPCDIST_TRIAL $N >>ran", 40, 6).end() == (0, "")
    ran = sorted((tmp_path / "ran").read_text().splitlines(), key=lambda line: int(line.split()[0]))
    assert ran == [f"{trial} {trial}" for trial in range(1, 41)]
    assert (events(tmp_path), names(tmp_path, "again")) == (
        all_of(dict.fromkeys(range(1, 41), ("ended", "0"))),
        [],
    )


def test_a_trial_runs_as_a_job_of_its_own(tmp_path: Path) -> None:
    names = ("TRIAL", "JOB_ID", "OUTPUTS", "CHECKPOINTS", "TRACKING", "ATTEMPT", "FAILURE")
    cmd = "\n".join(f"echo {name}=$HPCDIST_{name}" for name in names)
    cmd += "\necho $N $PMI_RANK$HPCDIST_WORKERS; echo $POLYAXON_OUTPUTS_PATH $POLYAXON_OFFLINE_ROOT; sleep 1"
    assert Workers(tmp_path, cmd, 2).end()[0] == 0
    run = tmp_path / "run"
    for trial in (1, 2):
        assert (run / "logs" / f"job-{trial}.out").read_text().splitlines() == [
            f"hpcdist: trial {trial} on localhost: trial={trial} n={trial} (job 9_{trial})",
            f"TRIAL={trial}",
            f"JOB_ID=9_{trial}",
            f"OUTPUTS={run}/outputs/{trial}",
            f"CHECKPOINTS={run}/checkpoints/{trial}",
            f"TRACKING={run}/tracking/9_{trial}/0.0",
            "ATTEMPT=0",
            f"FAILURE={run}/jobs/9_{trial}/failure.0.0",
            f"{trial}",
            f"{run}/outputs/{trial} {run}/tracking/9_{trial}/0.0/polyaxon-0",
        ]
        assert (run / "jobs" / f"9_{trial}" / "nodes.0").read_text() == "localhost\n"


def test_a_failing_trial_leaves_the_others_and_runs_again_as_the_experiment_says(tmp_path: Path) -> None:
    cmd = "echo $N ${HPCDIST_TRACKING##*/} >>ran; (($N != 2)) || exit 5"
    code, said = Workers(tmp_path, cmd, 3, 1, environment={"max_restarts": 1}).end()
    log = tmp_path / "run" / "logs" / "job-2.out"
    assert (code, said) == (5, f"hpcdist: trial 2 failed with exit code 5; its output is {log}\n")
    assert (tmp_path / "ran").read_text().splitlines() == ["1 0.0", "2 0.0", "2 0.1", "3 0.0"]
    expected = all_of({1: ("ended", "0"), 2: ("ended", "5"), 3: ("ended", "0")})
    assert events(tmp_path) == expected + Counter({("restarted", 2, "5"): 1})
    assert log.read_text().endswith(f"hpcdist: trial 2 failed on {NODE} (exit code 5)\n")


@pytest.mark.parametrize(
    ("code", "tries", "on", "again"),
    [(3, 0, "failure", True), (3, 2, "failure", False), (4, 0, "failure", False), (3, 0, "timeout", False),
     (86, 0, "failure", False), (137, 0, "failure", False), (3, 0, "", False)],
)  # fmt: skip
def test_which_failures_are_tried_again(
    tmp_path: Path, code: int, tries: int, on: str, *, again: bool
) -> None:
    policy = POLICY._replace(on=(on,), max=2, stop_on_exit=(4,)) if on else None
    job = start(tmp_path, policy=policy).job._replace(max_restarts=0)
    assert packed.may_try_again(job, code, tries) is again


def test_trials_that_end_by_term_are_returned_and_a_later_start_ends_them(tmp_path: Path) -> None:
    """Also one that ends well: many programs end so without having finished."""
    cmd = "(($N != 2)) || trap 'kill $!; exit 0' TERM; echo $N >>ready; sleep 20 & wait"
    job = Workers(tmp_path, cmd, 4)
    until(tmp_path / "ready", 2)
    job.signal("TERM")
    code, said = job.end()
    assert (code, said.count("is returned, to be run again")) == (143, 2)
    returned = all_of({1: ("returned", "143"), 2: ("returned", "143")})
    assert (events(tmp_path), names(tmp_path, "again")) == (returned, ["1.1", "2.1"])
    assert "whether it had finished is unknown" in (tmp_path / "run" / "logs" / "job-2.out").read_text()
    cmd = "echo $HPCDIST_TRIAL ${HPCDIST_TRACKING##*/} $HPCDIST_ATTEMPT $HPCDIST_RESUMED >>ran"
    assert Workers(tmp_path, cmd, 4).end()[0] == 0
    ran = sorted((tmp_path / "ran").read_text().splitlines())
    assert (ran, names(tmp_path, "again")) == (["1 1.0 1 1", "2 1.0 1 1", "3 0.0 0 0", "4 0.0 0 0"], [])


def alone(folder: Path, text: str, *words: str) -> Workers:
    """Start a worker as below slurmstepd with control groups, signalled alone; await its program."""
    hear = 'for name in INT USR1 TERM; do trap "echo $name >>heard" "$name"; done; echo >>ready\n'
    (folder / "hear.sh").write_text(f"{hear}until [[ -e over ]]; do sleep 0.05; done\nexit 5\n")
    lines = PROGRAM.read_text().replace("__file__", repr(str(PROGRAM)))
    is_so = "import supervisor.packed as own\nown.is_signalled_alone = lambda: True\nsys.exit"
    (folder / "alone.py").write_text(lines.replace("sys.exit", is_so))
    cmd = "true && bash hear.sh; code=$?; exit $code"
    job = Workers(folder, cmd, 1, 1, words=(folder / "alone.py", text, *words))
    until(folder / "ready")
    return job


@pytest.mark.parametrize("before", ["", "nice -n 1 ", """sh -c 'trap : USR1 INT TERM; "$@"; exit $?' sh """])
def test_a_worker_that_is_signalled_alone_passes_each_signal_on_once(tmp_path: Path, before: str) -> None:
    job = alone(tmp_path, TEXT.replace("bash -c", f"{before}bash -c"))
    for number, name in enumerate((signal.SIGUSR1, signal.SIGINT, signal.SIGTERM), 1):
        job.processes[0].send_signal(name)
        until(tmp_path / "heard", number)
    (tmp_path / "over").touch()
    assert (job.end()[0], (tmp_path / "heard").read_text().split()) == (143, ["USR1", "INT", "TERM"])
    assert events(tmp_path) == all_of({1: ("returned", "5")})


def test_what_passes_on_term_by_itself_gets_it_alone(tmp_path: Path) -> None:
    job = alone(tmp_path, TEXT.replace("bash -c", """sh -c '"$@"; exit $?' sh bash -c"""), "processes")
    job.processes[0].terminate()
    assert (job.processes[0].wait(30), (tmp_path / "heard").exists()) == (143, False)
    (tmp_path / "over").touch()
    assert (job.end()[0], events(tmp_path)) == (143, all_of({1: ("returned", "143")}))


def test_a_cancelled_trial_ends_alone_and_is_not_run_again(tmp_path: Path) -> None:
    """Of two that run the first is cancelled, and of two that wait the last; the others end by themselves."""
    cmd = "trap 'exit 7' TERM; echo $N >>ready; sleep $((N == 1 ? 20 : 2)) & wait"
    job = Workers(tmp_path, cmd, 4, environment={"max_restarts": 1})
    until(tmp_path / "ready", 2)
    for trial in (1, 4):
        trials.mark_cancelled(RunDirectory(tmp_path / "run"), trial)
    assert job.end()[0] == 0
    ends = {1: ("cancelled", "7"), 2: ("ended", "0"), 3: ("ended", "0"), 4: ("cancelled", "143")}
    assert (events(tmp_path), sorted((tmp_path / "ready").read_text().split())) == (
        all_of(ends),
        ["1", "2", "3"],
    )


def test_a_trial_that_a_policy_ends_is_no_failure(tmp_path: Path) -> None:
    assert Workers(tmp_path, "echo worse >$HPCDIST_FAILURE.pruned; exit 83", 1, 1).end() == (0, "")
    assert events(tmp_path) == all_of({1: ("pruned", "83")})


def test_what_a_job_that_is_gone_had_claimed_is_run_by_workers_of_another_one(tmp_path: Path) -> None:
    """Job 8 lives, 6 does not, and it ended trial 2; nobody knows about 7, which is on another machine."""
    run = tmp_path / "run"
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    ids = {"7": "1 elsewhere 1", "8": f"{os.getpid()} {NODE} {began}", "6": f"{os.getpid()} {NODE} 1"}
    (run / "claims").mkdir(parents=True)
    for trial, owner in ((1, "8"), (2, "6"), (3, "6"), (4, "7")):
        (run / "claims" / f"{trial}.0").symlink_to(f"{owner}/0/0/100")
    for owner, text in ids.items():
        (run / "jobs" / owner).mkdir(parents=True)
        (run / "jobs" / owner / "id").write_text(f"{text}\n")
    (run / "events.6@n").write_text("started 6_2 100 0\nended 6_2 105 0\nstarted 6_3 100 0\n")
    code, said = Workers(tmp_path, "echo $N ${HPCDIST_TRACKING##*/} >>ran", 5, 1).end()
    assert (code, (tmp_path / "ran").read_text()) == (0, "5 0.0\n3 1.0\n")
    assert said == "hpcdist: trial 3 is returned, to be run again: job 6 is gone\n"


def test_what_a_killed_worker_had_claimed_is_returned_once_nothing_of_it_runs(tmp_path: Path) -> None:
    job = Workers(tmp_path, "echo $$ >>pids; echo $N >>ready; exec sleep 20", 3)
    until(tmp_path / "ready", 2)
    for process in job.processes:
        process.kill()
    assert job.end()[0] == -signal.SIGKILL
    lines = [Path("/proc", pid, "cmdline") for pid in (tmp_path / "pids").read_text().split()]
    assert [line for line in lines if line.exists() and line.read_bytes()] == []
    returned = all_of(dict.fromkeys((1, 2), ("returned", "unknown")))
    assert (events(tmp_path), names(tmp_path, "again")) == (returned, ["1.1", "2.1"])


def test_no_trial_starts_once_the_search_is_stopped_or_too_many_have_failed(tmp_path: Path) -> None:
    assert Workers(tmp_path, f"touch {tmp_path}/run/stop", 5, 1).end()[0] == 85
    assert events(tmp_path) == all_of({1: ("ended", "0")})
    (tmp_path / "run" / "stop").unlink()
    assert Workers(tmp_path, "exit $((N < 4))", 5, 1, hptuning={"max_failures": 2}).end()[0] == 1
    assert (tmp_path / "run" / "stop").read_text() == "as 2 trials have failed, and max_failures is 2\n"
    assert {n for what, n, _ in events(tmp_path) if what == "started"} == {1, 2, 3}


def test_a_job_starts_only_within_what_the_budget_has_left(tmp_path: Path) -> None:
    (tmp_path / "run" / "jobs" / "8").mkdir(parents=True)
    (tmp_path / "run" / "jobs" / "8" / "cost").write_text("cost 8 2 20\n")
    (tmp_path / "run" / "events").write_text(
        "started 8 1 0\nended 8 5 0\nstarted 8 105 1\naccounted 8 109 0\n"
    )
    environment, batch = {"resources": {"gpu": {"requests": 1}}}, {"budget": 0.008, "walltime": "10s"}
    why = "0.004444 GPU-hours are spent, 1 jobs that run may take 0.005556, and the budget is 0.007778"
    with pytest.raises(Failed) as raised:
        Workers(tmp_path, "true", 2, environment=environment, batch=batch)
    assert (str(raised.value), raised.value.code) == (f"this job runs no trials: {why}", 85)


def test_a_later_job_runs_the_trials_of_its_own_table(tmp_path: Path) -> None:
    assert Workers(tmp_path, "true", 3, 1).end()[0] == 0
    (tmp_path / "run" / "claims" / "next.trials.tsv").unlink()
    for name in ("2.1", "7.1"):  # 7 is none of its own
        (tmp_path / "run" / "again" / name).touch()
    assert Workers(tmp_path, "echo $HPCDIST_TRIAL >>ran", 4, 1).end()[0] == 0
    assert ((tmp_path / "ran").read_text().split(), names(tmp_path, "again")) == (["2", "4"], ["7.1"])


def test_a_program_that_cannot_be_started_is_no_failure_of_the_trial_and_ends_the_worker(
    tmp_path: Path,
) -> None:
    (tmp_path / "run" / "outputs").mkdir(parents=True)
    (tmp_path / "run" / "outputs" / "2").touch()  # no folder can be made, as on a full disk
    code, said = Workers(tmp_path, "true", 4, 1).end()
    log = tmp_path / "run" / "logs" / "job-2.out"
    assert (code, f"hpcdist: rank 0 on {NODE}: trial 2 could not be prepared; {log} shows why\n" in said) == (
        86,
        True,
    )
    assert events(tmp_path) == all_of({1: ("ended", "0"), 2: ("returned", "86")})


@pytest.mark.parametrize(
    ("cmd", "said", "end"),
    [
        pytest.param("ln -s missing/file $OWN/failed", "the failure of trial 1 cannot be written", "ended"),
        pytest.param("mkdir $OWN/space.0", "trial 1 failed, and nothing can be written", "returned"),
    ],
)
def test_a_worker_ends_where_nothing_can_be_written(tmp_path: Path, cmd: str, said: str, end: str) -> None:
    job = Workers(tmp_path, f"OWN=$HPCDIST_RUN_DIR/jobs/9; {cmd}; exit 3", 2, 1)
    code, printed = job.end()
    assert (code, f"hpcdist: rank 0 on {NODE}: {said}" in printed) == (86, True)
    assert events(tmp_path) == all_of({1: (end, "3")})


def test_trials_print_to_the_files_that_the_experiment_names(tmp_path: Path) -> None:
    own = {"output": "own/%j-%a.out", "error": "own/%A-%a.err"}
    assert Workers(tmp_path, "echo out; echo err >&2", 1, 1, batch=own).end() == (0, "")
    assert (tmp_path / "own" / "9_1-1.out").read_text().splitlines()[1:] == ["out"]
    assert (tmp_path / "own" / "9-1.err").read_text() == "err\n"
    assert (tmp_path / "run" / "logs" / "job-1.error.out").readlink() == tmp_path / "own" / "9-1.err"


def test_a_job_with_trials_left_goes_into_the_queue_again(tmp_path: Path) -> None:
    job = Workers(tmp_path, WAIT, 2, 1)
    until(tmp_path / "ready", 1)
    job.signal("TERM")
    job.start.job = job.start.job._replace(policy=POLICY._replace(on=("timeout",), max=1))
    assert job.end()[0] == 143
    found = [packed.requeues(job.start, 143, why) for why in ("timeout", "preempt", "failure")]
    job.start.restarts = 1
    assert [*found, packed.requeues(job.start, 143, "timeout")] == [True, False, False, False]


def test_which_claims_are_lost() -> None:
    owners = {"1.0": "9+2/0/0/5", "2.0": "9/0/1/5", "3.0": "9/0/1/5", "3.1": "8/0/0/7", "4.0": "9/0/0/5"}
    assert packed.lost(owners, {"4.1"}, {"9_1": 4, "9_2": 5}) == [("8", "3.1"), ("9+2", "1.0")]

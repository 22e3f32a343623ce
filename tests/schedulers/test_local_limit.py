"""The time limit of a job on this machine, which its script keeps itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.runs import job_states, submission
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.submission import SubmitRequest
from hpcdist.schedulers.job import JobState, Status
from tests.experiments import environment
from tests.plans import LOCAL, changed, planned
from tests.script.jobs import files_of, write

from .test_local import WORLD, holders, until

MACHINE = changed(LOCAL, launcher="processes")
DEAF = "trap '' TERM; echo deaf; while :; do sleep 1; done"


@pytest.mark.real
def test_processes_that_ignore_term_are_killed(tmp_path: Path) -> None:
    plan = planned(
        MACHINE, framework="pytorch", run={"cmd": DEAF}, environment=environment(1), batch={"walltime": "10s"}
    )

    def files(directory: RunDirectory) -> dict[str, str]:
        return files_of(plan, directory)

    began = time.monotonic()  # the job may begin some time before its submission returns
    run = submission.submit(SubmitRequest("deaf", "local", "local", DEAF, files), tmp_path, WORLD)
    log = run.directory.logs / "job.out"
    until(lambda: log.exists() and log.read_text().count("deaf\n") == 2)  # takes seconds on a busy machine
    until(lambda: not holders(run.record.token), seconds=120)
    assert time.monotonic() - began > 20
    (report,) = job_states.status([run], WORLD)
    assert report.status == Status(JobState.TIMEOUT, "timeout", 137, "", "events")
    assert "hpcdist: the time limit is over\n" in log.read_text()


def test_the_watch_does_not_hold_the_output(tmp_path: Path) -> None:
    plan = planned(MACHINE, framework="pytorch", run={"cmd": "exit 0"}, batch={"walltime": "1h"})
    write(tmp_path / "run", plan)
    with subprocess.Popen(["bash", tmp_path / "run" / "job.sh"], stdout=subprocess.PIPE) as process:
        process.wait()
        process.communicate(timeout=60)  # and not the hour of the watch


@pytest.mark.real
def test_time_limit_holds_for_processes_of_a_killed_script(tmp_path: Path) -> None:
    plan = planned(
        MACHINE, framework="pytorch", run={"cmd": DEAF}, environment=environment(1), batch={"walltime": "10s"}
    )

    def files(directory: RunDirectory) -> dict[str, str]:
        return files_of(plan, directory)

    run = submission.submit(SubmitRequest("deaf", "local", "local", DEAF, files), tmp_path, WORLD)
    log = run.directory.logs / "job.out"
    until(lambda: log.exists() and log.read_text().count("deaf\n") == 2)
    assert run.job
    os.kill(int(run.job.id), signal.SIGKILL)
    until(lambda: not holders(run.record.token), seconds=120)
    (report,) = job_states.status([run], WORLD)
    assert report.status.state is JobState.FAILED

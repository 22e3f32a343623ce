"""The job's own log files, ``batch.output`` and ``batch.error``, by the scripts and a real bash."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.runs import logs
from hpcdist.runs.rundir import RunDirectory
from tests.plans import changed, planned
from tests.script.jobs import ONE_PROCESS, started
from tests.script.test_runtime import in_job
from tests.slurm.process import until

BOTH = {"output": "logs/%x-%j.out", "error": "logs/%x-%j.err"}
COMMAND = "echo out; echo problem >&2"


def test_output_and_errors_are_apart_in_folders_that_the_job_makes(tmp_path: Path) -> None:
    job = started(tmp_path, name="bert", run={"cmd": COMMAND}, batch=BOTH)
    own, _ = job.communicate(timeout=60)
    assert (job.returncode, own) == (0, "")
    [out], [err] = (tmp_path / "logs").glob("*.out"), (tmp_path / "logs").glob("*.err")
    assert out.name == f"bert-{job.pid}.out"
    assert out.read_text().splitlines()[1:] == ["out"]
    assert err.read_text() == "problem\n"
    found = {file.name: logs.tail(file, 1) for file in logs.files(RunDirectory(tmp_path / "run"))}
    assert found == {"job.error.out": ["problem"], "job.output.out": ["out"]}


def test_labelled_tasks_keep_their_errors_apart(tmp_path: Path) -> None:
    command = {"cmd": 'echo "out $HPCDIST_RANK"; echo "problem $HPCDIST_RANK" >&2'}
    replicas = {"replicas": {"n_workers": 1}}
    job = started(tmp_path, framework="tensorflow", run=command, environment=replicas, batch=BOTH)
    job.communicate(timeout=60)
    [err] = (tmp_path / "logs").glob("*.err")
    # What puts the ranks in front may end a moment after the job.
    until(lambda: err.read_text().count("\n") > 1, "both lines", 30)
    assert sorted(err.read_text().splitlines()) == ["0: problem 0", "1: problem 1"]


def test_a_file_that_cannot_be_written_ends_the_job_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    job = started(tmp_path, run={"cmd": COMMAND}, batch=BOTH)
    own, _ = job.communicate(timeout=60)
    assert job.returncode == 86
    assert "which batch.output names" in own


@pytest.mark.parametrize(("pattern", "name"), [("x/%A-%a", "x/124[]-3"), ("%j.%u.log", "124[]_3.me.log")])
def test_each_element_of_an_array_has_its_own(tmp_path: Path, pattern: str, name: str) -> None:
    plan = planned(changed(ONE_PROCESS), batch={"output": "placeholder"})
    line = (
        f"hpcdist_element=3 hpcdist_job=124[]; hpcdist[output]={pattern}; cd {tmp_path}; mkdir run run/logs;"
        "hpcdist_open_logs; echo written"
    )
    run = tmp_path / "run"
    in_job(plan, tmp_path, line, HPCDIST_RUN_DIR=str(run), HPCDIST_JOB_ID="124[]_3", USER="me")
    assert (tmp_path / name).read_text() == "written\n"
    assert [file.name for file in logs.files(RunDirectory(run), "3")] == ["job-3.output.out"]

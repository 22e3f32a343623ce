"""The course of a job under Slurm, whose programs are stand-ins here."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hpcdist.runs.rundir import RunDirectory
from tests.plans import TESTBED
from tests.script.jobs import started
from tests.slurm.process import until

TOOL = """\
#!/bin/bash
# Stands for srun, and what Slurm is asked by.
case ${0##*/} in
srun)
  while [[ $1 != bash ]]; do shift; done
  SLURM_PROCID=0 SLURM_NODEID=0 SLURMD_NODENAME=n1 SLURM_NTASKS=1 exec "$@"
  ;;
scontrol)
  [[ $1 == show ]] || { echo "$*" >>asked && exit; }
  touch told # as Slurm sends TERM to the tasks, too
  echo "JobId=7 $STATE"
  [[ -z $TERM_NOW ]] || kill -TERM $PPID # the batch script is told after the tasks' step has ended
  ;;
sinfo) echo "sinfo $*" >>asked && printf 'n2 down*\\nn3 idle\\nn1 idle\\n' ;;
squeue) [[ $* != *%T* ]] || echo "slurm_load_jobs error: Invalid job id specified" >&2 ;;
esac
"""
LIMIT = "JobState=COMPLETING Reason=TimeLimit"


def job(folder: Path, cmd: str, told: str = "", **environ: str) -> list[tuple[str, str]]:
    """Run a job on n1, which gets TERM when this file is there; return its events."""
    (folder / "bin").mkdir()
    for name in ("srun", "scontrol", "sinfo", "squeue", "scancel"):
        (folder / "bin" / name).write_text(TOOL)
        (folder / "bin" / name).chmod(0o755)
    on = environ.pop("ON", "failure timeout").split()
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1", "STATE": LIMIT}
    path = f"{folder}/bin:{os.environ['PATH']}"
    with started(
        folder, TESTBED, {"PATH": path, **slurm, **environ},
        run={"cmd": cmd}, environment={"restart": {"on": on}},
    ) as process:  # fmt: skip
        if told:
            until((folder / told).exists, "the program")
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    return [(event.what, event.value) for event in RunDirectory(folder / "run").events()]


WAITS = "touch ready; until [[ -e told ]]; do sleep 0.1; done; exit 9"


@pytest.mark.parametrize(
    ("change", "events", "why"),
    [
        ({}, [("again", "timeout"), ("requeued", "143")], "timeout\n"),
        ({"STATE": "JobState=CANCELLED"}, [("ended", "143")], "terminated\n"),
        ({"ON": "failure"}, [("timeout", "0"), ("over", "timeout"), ("ended", "143")], "timeout\n"),
    ],
)
def test_a_job_that_met_its_limit_before_it_acted_goes_into_the_queue_at_once(
    tmp_path: Path, change: dict[str, str], events: list[tuple[str, str]], why: str
) -> None:
    assert job(tmp_path, WAITS, "ready", **change) == [("started", "0"), *events]
    asked = tmp_path / "asked"
    assert (asked.read_text() if asked.exists() else "") == ("" if change else "requeue 7\n")
    assert (tmp_path / "run/attempts/0.why").read_text() == why
    own = tmp_path / "run/jobs/7"
    assert [file.name for file in own.iterdir() if file.name.startswith(("failure", "faults"))] == []


def test_a_job_whose_tasks_met_the_limit_first_goes_into_the_queue_although_it_is_told_then(
    tmp_path: Path,
) -> None:
    events = job(tmp_path, "exit 143", TERM_NOW="1")
    assert events == [("started", "0"), ("again", "timeout"), ("requeued", "143")]
    assert (tmp_path / "asked").read_text() == "requeue 7\n"


def test_what_a_killed_script_could_not_record_is_found_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "run/attempts").mkdir(parents=True, mode=0o700)
    (tmp_path / "run/jobs/6").mkdir(parents=True)
    (tmp_path / "run/attempts/0").write_text("6 0.0 6\n")
    (tmp_path / "run/jobs/6/nodes.0").write_text("n1\nn2\nn3\n")
    events = job(tmp_path, "true", STATE="")
    assert (tmp_path / "asked").read_text() == "sinfo -h -N -n n1,n2,n3 -o %N %T\n"
    assert [value for what, value in events if what == "lost"] == ["n2"]

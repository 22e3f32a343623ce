"""Nodes that failed in runs on another machine: what is known here, and what a job there does without."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.runs.remotes.queue import Queue
from tests.runs.remotes.server import Laptop

pytestmark = [pytest.mark.real, pytest.mark.extended]

_SACCT = "#!/bin/sh\nprintf '101|NODE_FAIL|0:0|None\\n'\n"
_SINFO = "#!/bin/sh\nprintf 'n1|down*\\n'\n"


@pytest.fixture
def queue(here: Laptop) -> Queue:
    """Return the queue of the other machine, on which an experiment does without bad nodes."""
    made = Queue(here)
    here.write("one", "true", launcher="srun", exclude_bad_nodes=True)
    return made


def begun(here: Laptop, job: str, nodes: str, *events: str) -> Path:
    """Let the job of run ``one-1`` begin there, on these nodes; return its event log there."""
    run, now = here.there / "one-1", int(time.time())
    (run / "jobs" / job).mkdir(parents=True)
    (run / "jobs" / job / "nodes").write_text(f"{nodes}\n")
    log = run / "events"
    log.write_text("".join(f"{text.format(job=job, at=now)}\n" for text in events))
    return log


def test_a_node_that_was_lost_there_is_excluded_there(here: Laptop, queue: Queue) -> None:
    here.hpcdist("submit", "one.yml", "--on", "box")
    log = begun(here, "101", "n1", "started {job} {at} 0")
    (queue.folder / "jobs").write_text("")
    for name, text in (("sacct", _SACCT), ("sinfo", _SINFO)):
        (queue.folder / name).write_text(text)
        (queue.folder / name).chmod(0o755)
    [state] = here.json("status")
    assert (state["state"], state["reason"]) == ("node_fail", "n1 is down")
    here.hpcdist("metrics", "one-1")  # which brings the log from there once more
    for text in (log.read_text(), (here.work / "runs" / "one-1" / "events").read_text()):
        assert [line.split()[::3] for line in text.splitlines()] == [["started", "0"], ["lost", "n1"]]
    shown = here.hpcdist("plan", "one.yml", "--on", "box").stdout
    assert "excluded nodes: n1 (hpcdist doctor --nodes)\n" in shown
    done = here.hpcdist("submit", "one.yml", "--on", "box")
    assert "warning: excluded as suspect: n1 (lost " in done.stderr
    assert "#SBATCH --exclude=n1\n" in (here.there / "one-2" / "job.sh").read_text()


def test_a_submission_there_fetches_what_its_runs_have_recorded(here: Laptop, queue: Queue) -> None:
    del queue
    here.hpcdist("submit", "one.yml", "--on", "box")
    begun(here, "101", "n7", "started {job} {at} 0", "lost {job} {at} n7", "requeued {job} {at} 0")
    assert "suspect" not in here.hpcdist("plan", "one.yml", "--on", "box").stderr
    done = here.hpcdist("submit", "one.yml", "--on", "box")
    assert "warning: excluded as suspect: n7 (lost " in done.stderr
    assert "#SBATCH --exclude=n7\n" in (here.there / "one-2" / "job.sh").read_text()

"""A batch system behind ssh: which submissions make a job, and which jobs are whose."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.runs.remotes.queue import Queue
from tests.runs.remotes.server import Laptop

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.fixture
def queue(here: Laptop) -> Queue:
    """Return the queue of the other machine, for which there is an experiment."""
    made = Queue(here)
    here.write("one", "true", launcher="srun")
    return made


def made_older(here: Laptop, run: str, seconds: int) -> None:
    """Set back when a run was submitted."""
    file = here.work / "runs" / run / "record.json"
    record = json.loads(file.read_text())
    at = datetime.now(timezone.utc) - timedelta(seconds=seconds)
    file.write_text(json.dumps(record | {"submitted_at": at.isoformat(timespec="seconds")}))


def test_a_submission_that_still_runs_there_is_unknown_and_makes_one_job(here: Laptop, queue: Queue) -> None:
    held = queue.hold()
    words = [sys.executable, "-m", "hpcdist", "submit", "one.yml", "--on", "box"]
    with subprocess.Popen(words, cwd=here.work, env=here.environment) as first:
        while not queue.calls:
            time.sleep(0.1)
        first.kill()
    made_older(here, "one-1", 400)
    [state] = here.json("status")
    assert state["state"] == "unknown"
    assert state["reason"].startswith("its submission got no answer yet; check again in ")
    made_older(here, "one-1", 400)
    said = here.hpcdist("submit", "one.yml", "--on", "box", code=5).stderr
    assert "run one-1 of the same experiment may have a job" in said
    held.unlink()
    while not queue.jobs:
        time.sleep(0.1)
    assert "one-1: job 101 on site queued" in here.hpcdist("submit", "one.yml", "--on", "box").stdout
    assert (queue.calls, queue.jobs) == (1, ["101"])


def test_a_submission_is_completed_on_its_own_remote_alone(here: Laptop, queue: Queue) -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "hpcdist", "submit", "one.yml", "--on", "box"]
        done = subprocess.run(words, cwd=here.work, env=here.environment, stdout=full, check=False)
    assert (done.returncode, queue.jobs) == (74, ["101"])
    assert "one-2: job 102" in here.hpcdist("submit", "one.yml", "--on", "box2").stdout
    again = here.hpcdist("submit", "one.yml", "--on", "box")
    assert "one-1: job 101" in again.stdout
    assert "is completed now without another job" in again.stderr
    assert queue.jobs == ["101", "102"]


def test_a_job_waits_for_those_of_its_own_remote_alone(here: Laptop, queue: Queue) -> None:
    here.hpcdist("submit", "one.yml", "--on", "box")
    after = ("--set", "batch.dependency=afterok:one-1", "--dry-run")
    here_said = here.hpcdist("submit", "one.yml", "--site", str(queue.site), *after, code=2).stderr
    assert "one-1 is on box, and this job on this machine; submit it with --on box" in here_said
    other_said = here.hpcdist("submit", "one.yml", "--on", "box2", *after, code=2).stderr
    assert "one-1 is on box, and this job on box2" in other_said
    assert "--dependency=afterok:101" in here.hpcdist("submit", "one.yml", "--on", "box", *after).stdout

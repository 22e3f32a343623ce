"""What is wrong with one mirror is named, and leaves other runs alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.runs.remotes.server import Laptop
from tests.runs.remotes.test_from_python import python

pytestmark = [pytest.mark.real, pytest.mark.extended]


def test_a_file_that_cannot_be_written_here_is_named_and_the_others_come(here: Laptop) -> None:
    for name in ("bad", "good"):
        here.write(name, "echo done; exit 3")
        here.hpcdist("submit", f"{name}.yml", "--on", "box")
    log = here.work / "runs" / "bad-1" / "logs" / "job.out"
    log.mkdir(parents=True)
    named = f"bad-1 cannot be brought up to date: {log}: Is a directory"
    while {one["state"] for one in here.json("status")} != {"failed"}:
        assert here.hpcdist("status").stderr.count(named) <= 1
    assert "done" in here.hpcdist("logs", "good-1").stdout
    said = here.hpcdist("logs", "bad-1", code=None).stderr
    assert named in said
    log.rmdir()
    assert "done" in here.hpcdist("logs", "bad-1").stdout


def test_status_and_wait_name_a_run_whose_files_cannot_be_written_here(here: Laptop) -> None:
    go = here.folder / "go"
    here.write("bad", f"until [ -e {go} ]; do sleep 0.2; done; exit 3")
    here.hpcdist("submit", "bad.yml", "--on", "box")
    events = here.work / "runs" / "bad-1" / "events"
    events.unlink(missing_ok=True)
    events.mkdir()
    named = f"bad-1 cannot be brought up to date: {events}: Is a directory"
    assert here.hpcdist("status").stderr == f"warning: {named}\n"
    program = "print(hpcdist.find_run('bad-1').status().state.value)"
    assert [line for line in python(here, program) if named in line]
    words = [sys.executable, "-m", "hpcdist", "wait", "bad-1"]
    with subprocess.Popen(
        words, cwd=here.work, env=here.environment, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr
        while named not in (line := waiting.stderr.readline()):
            assert line
        events.rmdir()
        go.touch()
        assert named not in waiting.stderr.read()
    assert waiting.returncode == 3

"""Runs of remotes from Python, over a real ssh."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.runs.remotes.server import Laptop, events

pytestmark = [pytest.mark.real, pytest.mark.extended]


def python(here: Laptop, program: str) -> list[str]:
    """Return the lines that a program prints on the laptop."""
    done = subprocess.run(
        [sys.executable, "-c", f"import hpcdist\n{program}"],
        cwd=here.work,
        env=here.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_what_a_run_there_wrote_is_here_without_asking_for_its_state(here: Laptop) -> None:
    here.write("train", 'echo trained; echo 1 >"$HPCDIST_OUTPUTS/model"')
    here.hpcdist("submit", "train.yml", "--on", "box")
    while "ended" not in events(here.there):
        time.sleep(0.1)
    assert python(here, "print(*hpcdist.find_run('train-1').logs(), sep='\\n')").count("trained") == 1
    assert python(here, "print(hpcdist.find_run('train-1').outputs())") == [
        "(Output(path='model', kind='there', bytes=2, sha256=''),)"
    ]
    fetched = "run = hpcdist.find_run('train-1'); run.fetch('mod*'); print(run.outputs()[0].kind)"
    assert python(here, fetched) == ["file"]
    assert (here.work / "runs" / "train-1" / "outputs" / "model").read_text() == "1\n"


def test_an_experiment_is_submitted_and_followed_there(here: Laptop) -> None:
    here.write("train", "seq 1 900000")
    program = """
run = hpcdist.load("train.yml").submit(on="box")
lines = [line for line in run.logs(follow=True) if line.isdecimal()]
print(lines == [*map(str, range(1, 900001))], run.status().state.value)
"""
    assert python(here, program) == ["True completed"]
    assert (here.there / "train-1" / "record.json").exists()


def test_a_remote_that_does_not_answer_is_a_warning_and_what_is_here_is_read(here: Laptop) -> None:
    here.write("train", "echo trained")
    here.hpcdist("submit", "train.yml", "--on", "box", "--follow")
    here.close()
    (here.folder / "proxy").write_text("#!/bin/sh\nexit 1\n")
    lines = python(here, "print(*hpcdist.find_run('train-1').logs(), sep='\\n')")
    assert "trained" in lines
    assert [line for line in lines if "UserWarning: box cannot be reached" in line]

"""Runs there that go on, and new ones made of them, over a real ssh."""

from __future__ import annotations

import pytest

from tests.runs.remotes.server import Laptop, events
from tests.runs.remotes.test_from_python import python

pytestmark = pytest.mark.real

# Ends well when it has written three lines, one an attempt.
ADD = 'echo line >>"$HPCDIST_OUTPUTS/lines"; [ "$(wc -l <"$HPCDIST_OUTPUTS/lines")" -ge 3 ]'


def lines(here: Laptop, run: str) -> int:
    """Return how many lines a run has written there."""
    return len((here.there / run / "outputs" / "lines").read_text().splitlines())


def test_a_run_there_is_resumed_until_it_has_completed(here: Laptop) -> None:
    (here.work / "train.sh").write_text(ADD)
    here.write("train", "bash train.sh", code="snapshot")
    here.hpcdist("submit", "train.yml", "--on", "box", "--wait", code=1)
    for runs in (here.there, here.work / "runs"):  # as if an older version had written them
        with (runs / "train-1/runtime/files").open("a") as file:
            file.write("\n")
    assert here.json("resume", "train-1")[0]["name"] == "train-1"
    assert here.json("wait", "train-1")[0]["state"] == "failed"
    program = "run = hpcdist.find_run('train-1').resume(); print(run.name, run.wait().state.value)"
    assert python(here, program) == ["train-1 completed"]
    assert lines(here, "train-1") == 3
    described = here.json("describe", "train-1")
    assert [attempt["exit_code"] for attempt in described["attempts"]] == [1, 1, 0]
    said = here.hpcdist("resume", "train-1", code=2).stderr
    assert said == "error: train-1 has completed\n"


@pytest.mark.extended
@pytest.mark.parametrize("step", [0, 1], ids=["the files", "the submission"])
def test_a_resume_that_is_cut_off_anywhere_submits_one_job(here: Laptop, step: int) -> None:
    here.write("once", "exit 3")
    here.hpcdist("submit", "once.yml", "--on", "box", "--wait", code=3)
    for number, how in enumerate(("before", "half", "after"), 2):
        here.cut(*["0"] * step, how)
        here.hpcdist("resume", "once-1")
        here.hpcdist("wait", "once-1", code=3)
        assert (events(here.there).count("submitted"), events(here.there).count("resumed")) == (
            number,
            number - 1,
        )


@pytest.mark.extended
@pytest.mark.parametrize("step", [0, 1], ids=["the files", "the submission"])
def test_a_resume_that_is_killed_is_completed_by_the_next_without_a_second_job(
    here: Laptop, step: int
) -> None:
    go = here.folder / "go"
    go.touch()
    here.write("once", f"until [ -e {go} ]; do sleep 0.1; done; exit 3")
    here.hpcdist("submit", "once.yml", "--on", "box", "--wait", code=3)
    for number, how in enumerate(("killed-before", "killed-after"), 2):
        go.unlink()
        here.cut(*["0"] * step, how)
        assert here.hpcdist("resume", "once-1", code=None).returncode == -9
        here.hpcdist("resume", "once-1", code=None)  # refused if the job lives
        go.touch()
        here.hpcdist("wait", "once-1", code=3)
        assert events(here.there).count("submitted") == number


@pytest.mark.extended
def test_a_run_that_was_cancelled_goes_on(here: Laptop) -> None:
    here.write("long", '[ -e "$HPCDIST_OUTPUTS/begun" ] || { touch "$HPCDIST_OUTPUTS/begun"; sleep 600; }')
    here.hpcdist("submit", "long.yml", "--on", "box", "--set", "environment.restart.max=1")
    while not (here.there / "long-1" / "outputs" / "begun").exists():
        pass
    here.hpcdist("cancel", "long-1")
    assert here.json("wait", "long-1")[0]["state"] == "cancelled"
    here.hpcdist("resume", "long-1")
    assert here.json("wait", "long-1")[0]["state"] == "completed"
    assert not (here.there / "long-1" / "cancelled").exists()


@pytest.mark.extended
def test_a_copy_begins_with_what_the_run_has_there(here: Laptop) -> None:
    linked = f'{ADD}; code=$?; ln -sfn "$HPCDIST_OUTPUTS/lines" "$HPCDIST_OUTPUTS/latest"; exit $code'
    here.write("train", linked)
    here.hpcdist("submit", "train.yml", "--on", "box", "--wait", code=1)
    here.hpcdist("outputs", "train-1", "--get", "lines")
    here.cut("0", "0", "after")
    here.hpcdist("restart", "--copy", "train-1")
    here.hpcdist("wait", "train-2", code=1)
    program = "print(hpcdist.find_run('train-2').copy(params={}).wait().state.value)"
    assert python(here, program) == ["completed"]
    assert [lines(here, f"train-{number}") for number in (1, 2, 3)] == [1, 2, 3]
    assert (here.there / "train-3/outputs/latest").readlink() == here.there / "train-3/outputs/lines"
    assert here.json("describe", "train-3")["copy_of"] == "train-2"
    assert [one["kind"] for one in here.json("outputs", "train-3")] == ["there"]


@pytest.mark.extended
def test_a_restart_is_a_new_run_there(here: Laptop) -> None:
    here.write("train", ADD)
    here.hpcdist("submit", "train.yml", "--on", "box", "--wait", code=1)
    program = "run = hpcdist.find_run('train-1').restart(); print(run.name, run.wait().exit_code)"
    assert python(here, program) == ["train-2 1"]
    assert lines(here, "train-2") == 1


@pytest.mark.extended
def test_a_search_there_is_not_resumed_and_what_to_do_is_said(here: Laptop) -> None:
    here.write("tune", "exit {{ x }}")
    matrix = "hptuning.matrix={x: {values: [1, 2]}}"
    here.hpcdist("submit", "tune.yml", "--on", "box", "--wait", "--set", matrix, code=None)
    assert here.hpcdist("resume", "tune-1", code=2).stderr == (
        "error: tune-1 is on box, where `hpcdist resume` does not reach it; `hpcdist restart tune-1` submits"
        " all of it again\n"
    )

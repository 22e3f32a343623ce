"""Pipelines whose operations are runs on another machine, over a real ssh."""

from __future__ import annotations

import json

import pytest

from tests.runs.remotes.queue import Queue
from tests.runs.remotes.server import Laptop
from tests.runs.remotes.test_from_python import python

pytestmark = [pytest.mark.real, pytest.mark.extended]

OPERATIONS = [
    {"name": "prep", "run": {"cmd": "seq 3"}},
    {"name": "train", "run": {"cmd": "sum {{ ops.prep.outputs.path }}/numbers"}},
    {"name": "check", "needs": {"prep": "afterany"}, "run": {"cmd": "true"}},
]


@pytest.fixture
def queue(here: Laptop) -> Queue:
    """Return the queue of the other machine, for which there is a pipeline."""
    (here.work / "digits.yml").write_text(
        json.dumps({"kind": "pipeline", "name": "digits", "operations": OPERATIONS})
    )
    return Queue(here)


def script(here: Laptop, operation: str) -> str:
    return (here.there / f"digits-1-{operation}-1" / "job.sh").read_text()


def test_operations_wait_for_each_other_there_and_read_what_is_there(here: Laptop, queue: Queue) -> None:
    done = here.hpcdist("submit", "digits.yml", "--on", "box")
    assert done.stdout.splitlines() == [
        "digits-1/prep: job 101, run digits-1-prep-1",
        "digits-1/train: job 102, run digits-1-train-1",
        "digits-1/check: job 103, run digits-1-check-1",
        "cost: at most 72 node-hours in all",
        "digits-1: 3 runs; next: hpcdist status digits-1",
    ]
    assert f"sum {here.there}/digits-1-prep-1/outputs/numbers" in script(here, "train")
    assert "#SBATCH --dependency=afterok:101\n" in script(here, "train")
    assert "#SBATCH --dependency=afterany:101\n" in script(here, "check")
    shown = here.json("status", "digits-1")["operations"]
    assert [(one["operation"], one["state"], one["job_ids"]) for one in shown] == [
        ("prep", "pending", ["101"]),
        ("train", "pending", ["102"]),
        ("check", "pending", ["103"]),
    ]
    assert queue.jobs == ["101", "102", "103"]


@pytest.mark.parametrize(
    "step", [1, 2, 4, 5], ids=["files", "submission", "second files", "second submission"]
)
def test_a_submission_that_is_killed_is_gone_on_with_without_a_second_job(
    here: Laptop, queue: Queue, step: int
) -> None:
    here.cut(*["0"] * step, "killed-after")
    assert here.hpcdist("submit", "digits.yml", "--on", "box", code=None).returncode == -9
    said = here.hpcdist("submit", "digits.yml", "--on", "box")
    assert "the others are submitted" in said.stderr
    assert queue.jobs == ["101", "102", "103"]
    assert "#SBATCH --dependency=afterok:101\n" in script(here, "train")


def test_a_pipeline_for_another_machine_is_another_one(here: Laptop, queue: Queue) -> None:
    here.cut(*["0"] * 4, "killed-after")
    here.hpcdist("submit", "digits.yml", "--on", "box", code=None)
    assert here.hpcdist("submit", "digits.yml", "--on", "box2").stdout.endswith(
        "digits-2: 3 runs; next: hpcdist status digits-2\n"
    )
    assert queue.jobs == ["101", "102", "103", "104"]


def test_a_program_of_this_folder_is_refused_before_anything_is_submitted(here: Laptop, queue: Queue) -> None:
    (here.work / "train.py").write_text("")
    operations = [*OPERATIONS, {"name": "last", "run": {"cmd": "python3 train.py"}}]
    (here.work / "digits.yml").write_text(json.dumps({"kind": "pipeline", "operations": operations}))
    said = here.hpcdist("submit", "digits.yml", "--on", "box", code=2).stderr
    assert "train.py is in this folder, which box does not have" in said
    assert (queue.calls, here.calls()) == (0, 0)


def test_a_pipeline_is_submitted_there_from_python(here: Laptop, queue: Queue) -> None:
    program = """
pipeline = hpcdist.load_pipeline("digits.yml")
print(pipeline.plan(on="box")["train"].site)
found = pipeline.submit(on="box")
print([status.state.value for status in found.status().values()])
"""
    assert python(here, program) == ["queued", "['pending', 'pending', 'pending']"]
    assert queue.jobs == ["101", "102", "103"]

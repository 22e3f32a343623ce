"""How many of its trials an adaptive search has, by the files of its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.runs import standing, stopping
from hpcdist.runs.rundir import Run
from hpcdist.runs.standing import Standing
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState, Status
from tests.sweeps.test_trials import run

DONE = Status(JobState.COMPLETED, "COMPLETED", 0)


def searched(folder: Path, trials: int | None = 3, most: int = 7) -> Run:
    found = run(folder)
    found.directory.write("plan.json", json.dumps({"sweep": {"trials": trials, "most_trials": most}}))
    return found


def test_the_trials_of_all_its_jobs_count(tmp_path: Path) -> None:
    first = searched(tmp_path)
    assert standing.of(first) == Standing(3, 7)
    second = Run(first.directory._replace(number=2), replace(first.record, trials="4-6"))
    assert standing.of(first._replace(later=(second,))) == Standing(6, 7)
    last = Run(first.directory._replace(number=2), replace(first.record, trials="4-7"))
    assert standing.of(first._replace(later=(last,))) is None


def test_other_runs_have_none_and_a_damaged_plan_counts_as_no_trials(tmp_path: Path) -> None:
    assert standing.of(run(tmp_path)) is None
    assert standing.of(searched(tmp_path, most=0)) is None
    assert standing.of(searched(tmp_path, trials=None)) == Standing(0, 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("by `hpcdist sweep stop`", "it was stopped by `hpcdist sweep stop`"),
        ("as a trial has reached loss 1", "a trial has reached loss 1"),
        ("", "it was stopped"),
    ],
)
def test_a_search_that_was_stopped_waits_for_no_generation(tmp_path: Path, text: str, why: str) -> None:
    found = searched(tmp_path)
    for state in (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY):
        report = Report(found, Status(state))
        assert standing.awaited(report) == standing.expected(report) == Standing(3, 7)
    assert standing.expected(Report(found, Status(JobState.RUNNING))) == Standing(3, 7)
    assert standing.awaited(Report(found, Status(JobState.RUNNING))) is None
    assert standing.expected(Report(found, Status(JobState.NODE_FAIL))) is None
    assert standing.awaited(Report(found, Status(JobState.CANCELLED))) is None
    stopping.request(found.directory, text)
    assert standing.of(found) == Standing(3, 7, why)
    assert standing.awaited(Report(found, DONE)) is None


def test_a_stop_that_cannot_be_read_is_one(tmp_path: Path) -> None:
    found = searched(tmp_path)
    (found.directory.path / "stop").mkdir()
    assert standing.reason(found) == "it was stopped"

"""How many of its trials an adaptive search has, by the files of its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.runs import cancelling
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.runs.search_progress import (
    SearchProgress,
    awaiting_next,
    expecting_next,
    progress_of,
    stop_reason,
)
from hpcdist.schedulers.job import JobState, Status
from tests.searches.test_trials import run

DONE = Status(JobState.COMPLETED, "COMPLETED", 0)


def searched(folder: Path, trials: int | None = 3, most: int = 7) -> Run:
    found = run(folder)
    found.directory.write("plan.json", json.dumps({"sweep": {"trials": trials, "most_trials": most}}))
    return found


def test_the_trials_of_all_its_jobs_count(tmp_path: Path) -> None:
    first = searched(tmp_path)
    assert progress_of(first) == SearchProgress(3, 7)
    second = Run(first.directory._replace(number=2), replace(first.record, trials="4-6"))
    assert progress_of(first._replace(later=(second,))) == SearchProgress(6, 7)
    last = Run(first.directory._replace(number=2), replace(first.record, trials="4-7"))
    assert progress_of(first._replace(later=(last,))) is None


def test_other_runs_have_none_and_a_damaged_plan_counts_as_no_trials(tmp_path: Path) -> None:
    assert progress_of(run(tmp_path)) is None
    assert progress_of(searched(tmp_path, most=0)) is None
    assert progress_of(searched(tmp_path, trials=None)) == SearchProgress(0, 7)


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
        assert awaiting_next(report) == expecting_next(report) == SearchProgress(3, 7)
    assert expecting_next(Report(found, Status(JobState.RUNNING))) == SearchProgress(3, 7)
    assert awaiting_next(Report(found, Status(JobState.RUNNING))) is None
    assert expecting_next(Report(found, Status(JobState.NODE_FAIL))) is None
    assert awaiting_next(Report(found, Status(JobState.CANCELLED))) is None
    cancelling.request(found.directory, text)
    assert progress_of(found) == SearchProgress(3, 7, why)
    assert awaiting_next(Report(found, DONE)) is None


def test_a_stop_that_cannot_be_read_is_one(tmp_path: Path) -> None:
    found = searched(tmp_path)
    (found.directory.path / "stop").mkdir()
    assert stop_reason(found) == "it was stopped"

"""Further jobs of a search: only where none of it runs, or may run, any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, SchedulerError
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase
from hpcdist.schedulers.job import JobState, Status
from hpcdist.searches import resume
from tests.runs.test_rundir import made
from tests.wording import Wording

ENDED = Status(JobState.FAILED, "ended", 1)


def test_a_search_whose_jobs_have_ended_is_over(tmp_path: Path) -> None:
    resume.check_over(Report(made(tmp_path), ENDED))


def test_a_job_that_lives_is_named(tmp_path: Path, wording: Wording) -> None:
    run = made(tmp_path)
    with pytest.raises(ConfigError) as caught:
        resume.check_over(Report(run, Status(JobState.RUNNING)))
    wording(str(caught.value))


def test_processes_of_a_killed_script_still_run_trials(tmp_path: Path, wording: Wording) -> None:
    orphaned = Status(JobState.FAILED, "orphaned", None, "its processes live on")
    with pytest.raises(ConfigError) as caught:
        resume.check_over(Report(made(tmp_path, scheduler="local"), orphaned))
    wording(str(caught.value))


def test_a_job_whose_submission_got_no_answer_may_run_trials(tmp_path: Path, wording: Wording) -> None:
    run = made(tmp_path)
    lost = run._replace(record=replace(run.record, job_id=None, phase=Phase.SUBMITTING))
    report = Report(lost, Status(JobState.UNKNOWN, "submitting", reason="no answer yet"))
    whole = Report(run, report.status, (Report(run, ENDED), report))
    with pytest.raises(SchedulerError) as caught:
        resume.check_over(whole)
    wording(str(caught.value))

"""Packed trials, by what their workers recorded."""

from __future__ import annotations

from pathlib import Path

from hpcdist.runs import attempt_files, endings, events
from hpcdist.runs.attempt_files import TrialLog
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from tests.runs.test_event_states import log
from tests.runs.test_rundir import made

PLAN = StoredPlan(gpus=4, tasks=8, workers=8)


def directory(folder: Path, *lines: str, job: str = "12+2", node: str = "n1.x") -> RunDirectory:
    run = made(folder)
    run.directory.write(f"events.{job}@{node}", log(*lines).decode())
    return run.directory


def of_job(state: str, ended: float | None = None) -> Attempt:
    return Attempt("12_2", (0, 0), state, 0.0, 0.0, ended)


def test_the_log_of_a_job_and_a_node(tmp_path: Path) -> None:
    found = directory(tmp_path, "started 12_5 100 0", "cut")
    (found.path / "events.12+2@none").mkdir()
    own = (Event("started", "12_5", 100, "0"),)
    assert attempt_files.logs(found) == [TrialLog("12_2", "n1.x", own)]
    assert attempt_files.of_programs(found) == own


def test_of_other_runs_the_jobs_run_the_program(tmp_path: Path) -> None:
    found = made(tmp_path).directory
    found.write("events", log("started 12 100 0").decode())
    assert attempt_files.of_programs(found) == (Event("started", "12", 100, "0"),)


def test_elements_whose_jobs_run_packed_trials_have_the_ids_of_elements() -> None:
    assert events.read(log("started 12+2 100 0", "started 12 1 0")) == (
        Event("started", "12_2", 100, "0"),
        Event("started", "12", 1, "0"),
    )


def test_starts_ends_and_restarts_of_trials(tmp_path: Path) -> None:
    found = directory(
        tmp_path,
        "started 12_5 100 0",
        "restarted 12_5 110 1",
        "started 12_6 105 0",
        "ended 12_5 130 0",
        "returned 12_6 140 143",
        "started 12_6 150 1",
        "ended 12_6 152 3",
    )
    host = ("n1.x",)
    assert attempt_files.trial_attempts(found, PLAN, [of_job("running")], 200) == (
        Attempt("12_5", (0, 0), "failed", 100, 100, 110, host, 1, 5.0, why="failure"),
        Attempt("12_6", (0, 0), "requeued", 105, 105, 140, host, 143, 17.5),
        Attempt("12_5", (0, 1), "completed", 110, 110, 130, host, 0, 10.0),
        Attempt("12_6", (1, 0), "failed", 150, 150, 152, host, 3, 1.0),
    )


def test_an_end_whose_exit_code_is_unknown_is_no_success(tmp_path: Path) -> None:
    found = directory(tmp_path, "started 12_5 100 0", "ended 12_5 130 unknown")
    assert [
        each.state for each in attempt_files.trial_attempts(found, PLAN, [of_job("completed", 160)], 200)
    ] == ["ended"]


def test_a_trial_without_an_end_is_what_its_job_is(tmp_path: Path) -> None:
    found = directory(tmp_path, "started 12_5 100 0")
    states = {
        state: attempt_files.trial_attempts(found, PLAN, [of_job(state, 160)], 200)[0]
        for state in ("running", "completed", "failed", "node_fail", "timeout", "requeued")
    }
    assert {state: (one.state, one.ended, one.gpu_seconds) for state, one in states.items()} == {
        "running": ("running", None, 50.0),
        "completed": ("vanished", 160, 30.0),
        "failed": ("vanished", 160, 30.0),
        "node_fail": ("node_fail", 160, 30.0),
        "timeout": ("timeout", 160, 30.0),
        "requeued": ("unknown", None, None),
    }
    assert attempt_files.trial_attempts(found, PLAN, [], 200)[0].state == "unknown"


def test_a_later_job_that_runs_packed_trials_has_no_elements_of_their_numbers(tmp_path: Path) -> None:
    """Its end would be made of theirs: `cancelled` where processes of its killed script live on."""
    run = made(tmp_path, trials="2-12")
    assert run.job is not None
    assert endings.elements(run.job).size == 11
    run.directory.write("plan.json", '{"sweep": {"pack": {"workers": 3}}}')
    assert endings.elements(run.job).size == 0

"""What destinations get: runs, the elements of arrays, and all attempts as one."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import warning
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState, Status
from hpcdist.script import trial_table
from hpcdist.tracking import export
from hpcdist.tracking.export import Name
from hpcdist.tracking.series import Points
from tests.tracking.made import AT, COMPLETED, kept, logged, made

ARRAY: dict[str, Any] = {"request": {"array": "0-2"}}


def curve(points: Points) -> list[tuple[float, float]]:
    return [*zip(points.steps, points.values, strict=True)]


def read(run: Run, status: Status = COMPLETED) -> list[export.Item]:
    found, problems = export.read(Report(run, status), now=AT + 100.0)
    assert problems == []
    return found


def shown(item: export.Item) -> dict[str, Any]:
    fields = ("name", "key", "job", "state", "started", "ended", "begin", "params", "tags")
    return {field: getattr(item, field) for field in fields}


def test_a_run_with_all_that_it_recorded(tmp_path: Path) -> None:
    run = made(tmp_path, f"started 7 {AT + 5} 0", f"ended 7 {AT + 9} 0")
    model = kept(run, "m.pt", "weights", "model", loss=0.5)
    logged(run, "7/0.0/rank-0", {"params": {"batch": 4}}, {"step": 1, "metrics": {"loss": 0.5}}, model)
    logged(run, "7/0.0/rank-1", {"metrics": {"loss": "nan"}})
    [item] = read(run)
    assert shown(item) == {
        "name": "train-1",
        "key": "tokentrain1",
        "job": "7",
        "state": JobState.COMPLETED,
        "started": AT + 5,
        "ended": AT + 9,
        "begin": AT + 5,
        "params": {"lr": 0.1, "batch": 4},
        "tags": (),
    }
    assert curve(item.series[Name("loss", 0)]) == [(1, 0.5)]
    assert [*item.series] == [Name("loss", 0), Name("loss", 1)]
    assert [*item.artifacts] == ["m.pt"]


def test_a_run_that_has_not_started_begins_when_it_was_submitted(tmp_path: Path) -> None:
    [item] = read(made(tmp_path), Status(JobState.PENDING))
    assert (item.job, item.started, item.ended, item.begin, item.attempts) == ("7", None, None, AT, ())


def test_attempts_are_one_run_in_which_the_later_one_goes_on(tmp_path: Path) -> None:
    run = made(tmp_path, f"started 7 {AT} 0", f"started 7 {AT + 50} 1", f"ended 7 {AT + 60} 0")
    logged(run, "7/0.0/rank-0", *({"step": step, "metrics": {"m": 1}} for step in range(4)))
    logged(run, "7/1.0/rank-0", *({"step": step, "metrics": {"m": 2}} for step in (2, 3)))
    [item] = read(run)
    assert curve(item.series[Name("m", 0)]) == [(0, 1), (1, 1), (2, 2), (3, 2)]
    assert (item.started, item.ended, len(item.attempts)) == (AT, AT + 60, 2)


def test_jobs_of_one_run_are_one_too(tmp_path: Path) -> None:
    """As when its script was submitted again by hand, or a chain of jobs goes on."""
    run = made(tmp_path, f"started 9 {AT} 0", f"ended 9 {AT + 1} 1", f"started 7 {AT + 50} 0")
    logged(run, "7/0.0/rank-0", *({"step": step, "metrics": {"m": 2}} for step in (1, 2)))
    logged(run, "9/0.0/rank-0", *({"step": step, "metrics": {"m": 1}} for step in (0, 1)))
    [item] = read(run, Status(JobState.RUNNING))
    assert curve(item.series[Name("m", 0)]) == [(0, 1), (1, 2), (2, 2)]
    assert (item.job, item.started, item.ended) == ("7", AT, None)


def test_elements_of_an_array_follow_it_and_no_end_is_made_up(tmp_path: Path) -> None:
    events = (f"started 7_{n} {AT + n} 0" for n in (0, 1, 2))
    run = made(tmp_path, *events, f"ended 7_0 {AT + 9} 0", f"ended 7_2 {AT + 8} 3", **ARRAY)
    logged(run, "7_1/0.0/rank-0", {"metrics": {"m": 1}}, kept(run, "1/m.pt", "x", "model"))
    whole, *elements = read(run, Status(JobState.FAILED, exit_code=3))
    assert (whole.name, whole.series, whole.started, whole.ended) == ("train-1", {}, AT, AT + 9)
    assert [(e.name, e.key, e.job, e.state.value, e.ended) for e in elements] == [
        ("train-1/0", "tokentrain1/0", "7_0", "completed", AT + 9),
        ("train-1/1", "tokentrain1/1", "7_1", "unknown", None),
        ("train-1/2", "tokentrain1/2", "7_2", "failed", AT + 8),
    ]
    assert [[*element.artifacts] for element in elements] == [[], ["1/m.pt"], []]


def test_an_element_of_a_search_has_the_params_of_its_trial(tmp_path: Path) -> None:
    run = made(tmp_path, *(f"started 7_{n} {AT} 0" for n in (1, 2)), request={"array": "1-2"})
    trials = [
        TrialTexts({"lr": f"{lr}"}, "true", {"POLYAXON_PARAMS": f'{{"lr": {lr}}}'}, number)
        for number, lr in enumerate((0.5, 0.25), 1)
    ]
    (run.directory.path / trial_table.FILE).write_text(trial_table.table(trials))
    logged(run, "7_2/0.0/rank-0", {"params": {"batch": 4}})
    _, first, second = read(run, Status(JobState.RUNNING))
    assert (first.params, second.params) == ({"lr": 0.5}, {"lr": 0.25, "batch": 4})


def test_an_attempt_that_was_lost_has_no_end(tmp_path: Path) -> None:
    run = made(tmp_path, f"started 7 {AT} 0", f"ended 7 {AT + 5} 1", f"started 7 {AT + 50} 1")
    [item] = read(run, Status(JobState.NODE_FAIL))
    assert (item.state, item.started, item.ended) == (JobState.NODE_FAIL, AT, None)


def test_an_artifact_outside_the_outputs_is_left_out(tmp_path: Path) -> None:
    run = made(tmp_path)
    entry = kept(run, "x", "x")
    entry["artifact"]["path"] = "../record.json"
    logged(run, "7/0.0/rank-0", entry)
    [item] = read(run)
    assert item.artifacts == {}


def test_damage_is_a_warning(tmp_path: Path) -> None:
    run = made(tmp_path)
    logged(run, "7/0.0/rank-0", {"step": []})
    _, problems = export.read(Report(run, COMPLETED), now=AT)
    assert problems == [warning("train-1: 1 damaged line of what it recorded was skipped")]


def test_a_time_that_is_none_is_unknown(tmp_path: Path) -> None:
    run = made(tmp_path)
    logged(run, "7/0.0/rank-0", *({"at": at, "metrics": {"m": 1}} for at in (-5, 0, AT, 1e18)))
    [item] = read(run)
    assert [at for _, _, at, _ in item.points()] == [0, 0, AT, 0]


@pytest.mark.parametrize(
    ("step", "whole"),
    [(0.0, 0), (2.0, 2), (2.9, 2), (-0.5, -1), (float("inf"), 1 << 53), (float("-inf"), -(1 << 53))],
)
def test_whole_steps(tmp_path: Path, step: float, whole: int) -> None:
    assert export.whole(step) == whole
    [item] = read(made(tmp_path))
    item = item._replace(series={Name("m", 0): Points(array("d", [step]), array("d", [1]), array("d", [0]))})
    assert export.fractional(item) == ([] if step == whole else ["m"])

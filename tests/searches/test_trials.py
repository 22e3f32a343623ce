"""The states of trials, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState, Status, Usage
from hpcdist.script.trial_table import table
from hpcdist.searches import trials
from hpcdist.searches.trials import Progress, TrialState
from hpcdist.tracking.comparison import Tracked
from tests.runs.test_event_states import log
from tests.runs.test_rundir import made
from tests.wording import Wording

RUNNING = Status(JobState.RUNNING, "RUNNING", source="squeue")
OVER = Status(JobState.FAILED, "FAILED", 3, source="sacct")


def run(folder: Path, *events: str, count: int = 3) -> Run:
    found = made(folder)
    params = [{"POLYAXON_PARAMS": json.dumps({"lr": at})} for at in range(1, count + 1)]
    texts = [TrialTexts({}, "x", text, number) for number, text in enumerate(params, 1)]
    found.directory.write("trials.tsv", table(texts))
    found.directory.write("events", log(*events).decode())
    found.directory.write(
        "plan.json", json.dumps({"placement": {"rows": [], "groups": [{"gpus": 2, "nodes": 1}]}})
    )
    return found


def states(found: Sequence[TrialState]) -> list[tuple[int, object, str, int | None, float | None]]:
    return [
        (one.number, one.params["lr"], one.state, one.attempt and one.attempt.exit_code, one.gpu_seconds)
        for one in found
    ]


@pytest.mark.parametrize("event_id", ["12", "12[].head_1", "f7"])
@pytest.mark.parametrize("at", [155, 160])
def test_trial_that_recorded_its_end_is_not_cancelled_by_a_stop(
    tmp_path: Path, event_id: str, at: int
) -> None:
    """A stop kills its script between that line and its exit; one that got TERM may not have finished."""
    lines = [
        *("started JOB_1 100 0", "ended JOB_1 160 0"),
        *("started JOB_2 100 0", "terminated JOB_2 160 0", "ended JOB_2 160 0"),
        *("started JOB_3 100 0", "ended JOB_3 160 143"),
        f"cancelled JOB {at} 0",
    ]
    searched = run(tmp_path, *(line.replace("JOB", event_id) for line in lines))
    searched = searched._replace(record=replace(searched.record, job_id=event_id))
    stopped = Status(JobState.CANCELLED, "F", 143, source="qstat")
    found = trials.trials(Report(searched, stopped), lambda _: (), 200)
    assert [one.state for one in found] == ["completed", "cancelled", "cancelled"]


def test_each_trial_has_the_state_of_its_element(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12_1 100 0", "ended 12_1 160 0", "started 12_2 110 0")
    found = trials.trials(Report(searched, RUNNING), lambda _: (), 200)
    assert states(found) == [
        (1, 1, "completed", 0, 120.0),
        (2, 2, "running", None, 180.0),
        (3, 3, "pending", None, 0.0),
    ]
    assert trials.progress(found, 1) == Progress(
        3, {"completed": 1, "running": 1, "pending": 1}, 300 / 3600, 120.0
    )


def test_a_trial_that_never_started_did_not_complete_whatever_its_array_did(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12_1 100 0", "ended 12_1 160 3", count=4)
    usage = (Usage(2, JobState.NODE_FAIL), Usage(3, JobState.COMPLETED))
    ended = searched._replace(record=replace(searched.record, ended=OVER))
    found = trials.trials(Report(ended, OVER), lambda _: usage, 200)
    assert [one.state for one in found] == ["failed", "node_fail", "vanished", "vanished"]
    cancelled = Status(JobState.CANCELLED, source="sacct")
    assert trials.trials(Report(ended, cancelled), lambda _: usage, 200)[3].state == "cancelled"


def test_a_trial_that_wrote_no_end_is_lost_once_its_array_is_over(tmp_path: Path) -> None:
    """Without accounting nobody else says how it ended; until then it may live."""
    searched = run(tmp_path, "started 12_1 100 0", "started 12_2 100 0", "ended 12_2 160 0", count=2)
    lost = Status(JobState.NODE_FAIL, source="scontrol")
    ended = searched._replace(record=replace(searched.record, ended=lost))
    for status, state in (
        (lost, "vanished"),
        (Status(JobState.CANCELLED), "cancelled"),
        (RUNNING, "unknown"),
    ):
        found = trials.trials(Report(ended, status), lambda _: (), 200)
        assert [one.state for one in found] == [state, "completed"]


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.UNSUBMITTED, JobState.UNKNOWN])
def test_a_trial_that_may_start_is_not_lost_and_where_nothing_is_known_is_unknown(
    state: JobState, tmp_path: Path
) -> None:
    found = trials.trials(Report(run(tmp_path, count=1), Status(state)), lambda _: (), 200)
    assert states(found) == [(1, 1, state.value, None, 0.0)]


def test_the_job_of_a_search_is_not_the_trial_of_its_number(tmp_path: Path) -> None:
    searched = run(tmp_path, count=12)
    over = Status(JobState.COMPLETED, "COMPLETED", 0, source="sacct")
    ended = searched._replace(record=replace(searched.record, ended=over))
    assert trials.trials(Report(ended, over), lambda _: (), 200)[11] == TrialState(12, {"lr": 12}, "vanished")


def test_a_run_that_is_no_search_says_so(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(ConfigError) as error:
        trials.trials(Report(made(tmp_path), RUNNING), lambda _: (), 200)
    wording(str(error.value))


@pytest.mark.parametrize(
    ("waiting", "at_once", "left"), [(4, None, 10.0), (4, 2, 20.0), (5, 2, 30.0), (0, 2, None)]
)
def test_the_time_left_follows_from_the_trials_that_completed(
    waiting: int, at_once: int | None, left: float | None
) -> None:
    took = [Attempt("1_1", (0, 0), "completed", 0, 0, seconds) for seconds in (5, 15)]
    found = [TrialState(1, {}, "completed", one) for one in took] + [TrialState(2, {}, "pending")] * waiting
    assert trials.progress(found, at_once).left == left


def item(name: str, **metrics: float) -> Tracked:
    return Tracked(name, {}, (), metrics, ())


def test_the_best_trials_are_those_with_the_best_last_value(wording: Wording) -> None:
    items = [item("t/1", loss=3), item("t/2"), item("t/3", loss=1), item("t/4", loss=float("nan"))]
    assert [one.name for one in trials.best(items, "loss", 5)] == ["t/3", "t/1"]
    assert [one.name for one in trials.best(items, "-loss", 1)] == ["t/1"]
    with pytest.raises(ConfigError) as error:
        trials.best(items, "-acuracy", 1)
    wording(str(error.value))


def test_packed_trials_have_their_own_states_and_not_those_of_their_jobs(tmp_path: Path) -> None:
    placement = {"rows": [{"tasks": 2}], "groups": [{"gpus": 2, "nodes": 1}]}
    packing = {"sweep": {"pack": {"workers": 2}}, "placement": placement, "launch": {"mode": "tasks"}}
    searched = run(tmp_path, "started 12+1 100 0")
    searched.directory.write("plan.json", json.dumps(packing))
    lines = ("started 12_3 100 0", "ended 12_3 160 0", "started 12_2 110 0", "returned 12_2 150 143")
    searched.directory.write("events.12+1@n1", log(*lines).decode())
    live = trials.trials(Report(searched, RUNNING), lambda _: (), 200)
    assert states(live) == [
        (1, 1, "pending", None, 0.0),
        (2, 2, "requeued", 143, 40.0),
        (3, 3, "completed", 0, 60.0),
    ]
    over = trials.trials(Report(searched, OVER), lambda _: (), 200)
    assert [one.state for one in over] == ["vanished", "vanished", "completed"]


def test_a_trial_whose_job_of_workers_was_beyond_the_budget_was_stopped(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12 100 0", "ended 12 101 85")
    found = trials.trials(Report(searched, replace(OVER, exit_code=85)), lambda _: (), 200)
    assert [one.state for one in found] == ["stopped"] * 3


@pytest.mark.parametrize(
    ("by", "declared", "order"),
    [
        ("accuracy", None, "-accuracy"),
        ("val/loss", None, "val/loss"),
        ("val_top1_acc", None, "-val_top1_acc"),
        ("accuracy", "accuracy", "accuracy"),
        ("x", "-x", "-x"),
        ("-loss", None, "-loss"),
        ("+accuracy", None, "accuracy"),
    ],
)
def test_the_order_of_a_metric(by: str, declared: str | None, order: str) -> None:
    assert trials.order_of(by, declared) == order


def test_a_metric_without_an_order_is_asked_about(wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        trials.order_of("foo", "loss")
    wording(str(caught.value))

"""The attempts of a run: restarts by the batch system and by the script, arrays, and what stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.runs import attempts
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.events import read
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState, Status

from .test_event_states import log
from .test_rundir import made

AT = "1970-01-01T00:01:40+00:00"
NOW = 1000.0


def found(
    run: Run, *lines: str, plan: StoredPlan | None = None, status: Status | None = None
) -> list[Attempt]:
    return [*attempts.of_events(run, plan or StoredPlan(), read(log(*lines)), NOW, status)]


def test_a_job_that_was_requeued_and_that_ran_its_program_again(tmp_path: Path) -> None:
    lines = (
        "started 12 160 0", "ended 12 200 143",
        "started 12 300 1", "restarted 12 310 9", "restarted 12 330 7", "ended 12 400 0",
    )  # fmt: skip
    plan = StoredPlan(gpus=2, requeue=True)
    shown = found(made(tmp_path, submitted_at=AT), *lines, plan=plan)
    assert shown == [
        Attempt("12", (0, 0), "requeued", 100.0, 160.0, 200.0, None, 143, 80.0),
        Attempt("12", (1, 0), "failed", 200.0, 300.0, 310.0, None, 9, 20.0, None, "failure"),
        Attempt("12", (1, 1), "failed", 310.0, 310.0, 330.0, None, 7, 40.0, None, "failure"),
        Attempt("12", (1, 2), "completed", 330.0, 330.0, 400.0, None, 0, 140.0),
    ]
    assert [each.name for each in shown] == ["0.0", "1.0", "1.1", "1.2"]
    assert [(each.waited, each.elapsed) for each in shown] == [(60, 40), (100, 10), (0, 20), (0, 70)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((), Attempt("12", (0, 0), "unknown", 100.0), id="it may wait"),
        pytest.param(
            ("started 12 90 0",), Attempt("12", (0, 0), "running", 100.0, 90.0, gpu_seconds=910.0), id="runs"
        ),
        pytest.param(
            ("started 12 90 0", "pruned 12 110 83", "ended 12 111 0"),
            Attempt("12", (0, 0), "pruned", 100.0, 90.0, 111.0, None, 0, 21.0),
            id="a policy ended it",
        ),
        pytest.param(
            ("started 12 90 0", "pruned 12 110 83", "ended 12 111 4"),
            Attempt("12", (0, 0), "failed", 100.0, 90.0, 111.0, None, 4, 21.0),
            id="a policy ended it, and a step after it failed",
        ),
        pytest.param(
            ("started 12 90 0", "cancelled 12 120 0"),
            Attempt("12", (0, 0), "cancelled", 100.0, 90.0),
            id="cancelled, and its end was lost",
        ),
        pytest.param(
            ("started 12 90 0", "ended 12 120 143"),
            Attempt("12", (0, 0), "unknown", 100.0, 90.0, 120.0, None, 143, 30.0),
            id="it may be requeued",
        ),
        pytest.param(
            ("started 12 90 0", "ended 12 120 unknown"),
            Attempt("12", (0, 0), "ended", 100.0, 90.0, 120.0, None, None, 30.0),
            id="no exit code",
        ),
        pytest.param(
            ("started 12 90 x", "timeout 12 110 0"), Attempt("12", (0, 0), "timeout", 100.0, 90.0), id="limit"
        ),
        pytest.param(
            ("started 13 90 4",),
            Attempt("13", (4, 0), "running", None, 90.0, gpu_seconds=910.0),
            id="by hand",
        ),
    ],
)
def test_the_end_of_an_attempt(tmp_path: Path, lines: tuple[str, ...], expected: Attempt) -> None:
    run = made(tmp_path, submitted_at=AT)
    assert found(run, *lines, plan=StoredPlan(gpus=1, requeue=True)) == [expected]


def test_a_start_without_an_end_is_unknown_where_another_follows(tmp_path: Path) -> None:
    first, last = found(made(tmp_path), "started 12 0 0", "started 12 50 1", plan=StoredPlan(gpus=4))
    assert first == Attempt("12", (0, 0), "requeued", None, 0.0)
    assert last == Attempt("12", (1, 0), "running", None, 50.0, gpu_seconds=3800.0)
    assert (last.waited, last.elapsed) == (None, None)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("over 12 40 completed", "finishing 12 41 0"),
            Attempt("12", (0, 0), "completed", None, 0.0, 40.0, None, 0, 160.0, why="completed"),
        ),
        (
            ("over 12 40 exit_code_93", "finishing 12 41 93"),
            Attempt("12", (0, 0), "failed", None, 0.0, 40.0, None, 93, 160.0, why="exit_code_93"),
        ),
        (
            ("over 12 40 timeout",),
            Attempt("12", (0, 0), "timeout", None, 0.0, 40.0, None, None, 160.0, why="timeout"),
        ),
        (
            ("again 12 40 timeout",),
            Attempt("12", (0, 0), "requeued", None, 0.0, 40.0, None, None, 160.0, why="timeout"),
        ),
    ],
)
def test_an_attempt_whose_script_was_killed_after_its_end(
    tmp_path: Path, lines: tuple[str, ...], expected: Attempt
) -> None:
    plan = StoredPlan(gpus=4)
    last = ("started 12 50 1", "skipped 12 50 0", "finishing 12 50 0", "ended 12 60 0")
    assert found(made(tmp_path), "started 12 0 0", *lines, *last, plan=plan) == [expected]


@pytest.mark.parametrize(
    ("state", "shown"), [("pending", "requeued"), ("suspended", "suspended"), ("unknown", "running")]
)
def test_a_live_job_is_as_the_batch_system_reports(tmp_path: Path, state: str, shown: str) -> None:
    status = Status(JobState(state))
    assert found(made(tmp_path), "started 12 0 0", status=status) == [Attempt("12", (0, 0), shown, None, 0.0)]
    ended = found(made(tmp_path), "started 12 0 0", "ended 12 9 143", status=status)
    assert ended[0].state == ("requeued" if state == "pending" else "failed")
    assert found(made(tmp_path), status=status) == [Attempt("12", (0, 0), state)]


def test_the_record_has_the_last_word_about_the_last_attempt(tmp_path: Path) -> None:
    run = made(tmp_path, ended=Status(JobState.NODE_FAIL, exit_code=9))
    assert found(run, "started 12 0 0", "started 12 5 1") == [
        Attempt("12", (0, 0), "requeued", None, 0.0),
        Attempt("12", (1, 0), "node_fail", None, 5.0, exit_code=9),
    ]
    assert found(run) == [Attempt("12", (0, 0), "node_fail", exit_code=9)]


def test_what_was_not_submitted_has_none(tmp_path: Path) -> None:
    assert found(made(tmp_path, phase=Phase.REFUSED, job_id=None)) == []


def test_elements_of_an_array(tmp_path: Path) -> None:
    run = made(tmp_path, submitted_at=AT, job_id="12;cluster")
    lines = ("started 12_1 110 0", "started 12_0 120 0", "ended 12_1 130 4", "cancelled 12 140 0")
    assert found(run, *lines) == [
        Attempt("12_1", (0, 0), "failed", 100.0, 110.0, 130.0, exit_code=4),
        Attempt("12_0", (0, 0), "cancelled", 100.0, 120.0),
    ]
    ended = run._replace(record=replace(run.record, ended=Status(JobState.FAILED)))
    assert found(ended, "started 12_0 120 0") == [Attempt("12_0", (0, 0), "unknown", 100.0, 120.0)]


@pytest.mark.parametrize("code", ["0", "1", "85", "143", "unknown", "9" * 10])
@pytest.mark.parametrize("start", ["0", "3", "x"])
@pytest.mark.parametrize("cancelled", [(), ("cancelled 12_1 115 0",), ("cancelled 12 200 0",)])
@pytest.mark.parametrize("plan", [StoredPlan(requeue=True), StoredPlan(gpus=3, walltime=20)])
def test_most_elements_are_read_quickly_with_the_same_result(
    tmp_path: Path, code: str, start: str, cancelled: tuple[str, ...], plan: StoredPlan
) -> None:
    run = made(tmp_path, submitted_at=AT, job_id="12")
    begin, end = f"started 12_1 110 {start}", f"ended 12_1 130 {code}"
    for of_whom in ("12_1", "13_1"):
        lines = [line.replace("12_1", of_whom) for line in (begin, end)]
        slowly = [lines[0], f"checkpoint {of_whom} 120 0", lines[1]]
        assert found(run, *lines, *cancelled, plan=plan) == found(run, *slowly, *cancelled, plan=plan)


def test_an_element_in_pbs_whose_server_has_such_a_name(tmp_path: Path) -> None:
    run = made(tmp_path, submitted_at=AT, job_id="12[].head_1")
    lines = ("started 12[].head_1_0 120 0", "cancelled 12[].head_1 140 0")
    assert found(run, *lines) == [Attempt("12[].head_1_0", (0, 0), "cancelled", 100.0, 120.0)]


def test_hosts_are_those_of_each_start(tmp_path: Path) -> None:
    run = made(tmp_path)
    folder = run.directory.path / "jobs" / "12"
    folder.mkdir(parents=True)
    (run.directory.path / "plan.json").write_text(json.dumps({"request": {"requeue": True}}))
    (run.directory.path / "events").write_bytes(
        log("started 12 0 0", "ended 12 5 143", "started 12 10 1", "restarted 12 20 1", "ended 12 30 0")
    )
    (folder / "nodes").write_text("n3\nn4\n")
    assert [each.hosts for each in attempts.read(Report(run, Status(JobState.UNKNOWN)), NOW)] == [
        None,
        ("n3", "n4"),
        ("n3", "n4"),
    ]
    (folder / "nodes.0").write_text("n1\n\x1b[31m\nn2\n")
    (folder / "nodes.1").write_text("n5\n")
    assert [each.hosts for each in attempts.read(Report(run, Status(JobState.UNKNOWN)), NOW)] == [
        ("n1", "n2"),
        ("n5",),
        ("n5",),
    ]

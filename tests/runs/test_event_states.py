"""What the event log shows of a run: states that are no guesses, and GPU-hours that are exact."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.runs import attempts, events
from hpcdist.runs.event_states import of_run
from hpcdist.runs.events import Event, read, starts
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState, Status

from .test_rundir import made


def log(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("lines", "state", "hours"),
    [
        pytest.param((), "unknown", None, id="pending or anything else"),
        pytest.param(("submitted 12 0 host",), "unknown", None, id="not started"),
        pytest.param(("started 12 0 0",), "running", 20.0, id="running up to now"),
        pytest.param(("started 12 0 0", "ended 12 3600 0"), "completed", 2.0, id="ended"),
        pytest.param(
            ("started 12 0 0", "ended 12 3600 1", "started 12 7200 1", "ended 12 9000 0"),
            "completed",
            3.0,
            id="two attempts",
        ),
        pytest.param(
            ("started 12 0 0", "ended 12 3600 1", "started 12 32400 1"), "running", 4.0, id="the second runs"
        ),
        pytest.param(
            ("started 12 0 0", "started 12 7200 1", "ended 12 9000 0"),
            "completed",
            None,
            id="a lost end",
        ),
        pytest.param(
            ("started 12 0 0", "cancelled 12 60 0"), "unknown", None, id="cancelled, without an end"
        ),
        pytest.param(("cancelled 12 60 0",), "unknown", None, id="cancelled before its start"),
        pytest.param(("started 12 7200 0", "ended 12 3600 0"), "completed", 0.0, id="a clock set back"),
        pytest.param(("ended 12 3600 0",), "completed", None, id="its start was lost"),
        pytest.param(("started 12 0 0", "timeout 12 3600 0"), "timeout", None, id="killed at its limit"),
        pytest.param(
            ("started 12 0 0", "ended 12 3600 unknown"), "ended", 2.0, id="its exit code is unknown"
        ),
        pytest.param(
            ("started 12 0 0", "terminated 12 3599 0", "ended 12 3600 0"), "ended", 2.0, id="0 after TERM"
        ),
        pytest.param(
            ("started 12 0 0", "timeout 12 3600 0", "over 12 3600 timeout", "finishing 12 3600 138"),
            "running",
            None,
            id="in the steps after its limit",
        ),
        pytest.param(
            ("started 12 0 0", "again 12 3600 timeout", "requeued 12 3600 138"),
            "unknown",
            2.0,
            id="in the queue again",
        ),
    ],
)
def test_a_job(tmp_path: Path, lines: tuple[str, ...], state: str, hours: float | None) -> None:
    run, events = made(tmp_path), read(log(*lines))
    assert of_run(run, events) == state
    assert attempts.gpu_hours(run, StoredPlan(gpus=2), events, now=36000.0) == hours
    assert attempts.gpu_hours(run, StoredPlan(), events, now=36000.0) is None


def with_plan(run: Run, **request: object) -> Run:
    (run.directory.path / "plan.json").write_text(json.dumps({"request": request}))
    return run


FIRST = ("started 12_0 0 0", "ended 12_0 5 0")


def test_elements_of_an_array(tmp_path: Path) -> None:
    run = with_plan(made(tmp_path), array={"ranges": [{"first": 0, "last": 1}]})
    lines = ["started 12_0 0 0", "started 12_1 0 0", "ended 12_0 3600 0"]
    for more, state, hours in (([], "running", 11.0), (["ended 12_1 1800 0"], "completed", 1.5)):
        (run.directory.path / "events").write_bytes(log(*lines, *more))
        events = run.directory.events()
        assert of_run(run, events) == state
        assert attempts.gpu_hours(run, StoredPlan(gpus=1), events, now=36000.0) == hours
    for written, state in (
        (("started 12_0 0 0", "ended 12_0 3600 0"), "unknown"),
        (("started 12_0 0 0", "ended 12_0 3600 0", "started 99 0 0", "ended 99 1 0"), "unknown"),
        (("started 12_0 0 0", "ended 12_0 3600 0", "cancelled 12 3601 0"), "cancelled"),
        ((*FIRST, "started 12_1 0 0", "ended 12_1 9 0", "cancelled 12 10 0"), "completed"),
    ):
        assert of_run(run, read(log(*written))) == state
    (run.directory.path / "plan.json").write_text("{")
    assert of_run(run, read(log(*FIRST))) == "unknown"


def test_the_end_of_another_job_is_none_of_this_one(tmp_path: Path) -> None:
    assert of_run(made(tmp_path), read(log("started 99 0 0", "ended 99 1 0"))) == "unknown"


@pytest.mark.parametrize(("requeue", "state"), [(True, "unknown"), (False, "failed")])
def test_a_job_that_may_have_been_requeued(tmp_path: Path, requeue: object, state: str) -> None:
    run = with_plan(made(tmp_path), requeue=requeue)
    assert of_run(run, read(log("started 12 0 0", "ended 12 9 143"))) == state


def test_states_of_the_record(tmp_path: Path) -> None:
    ended = Status(JobState.FAILED, exit_code=1)
    assert of_run(made(tmp_path, ended=ended), read(log("started 12 0 0"))) == "failed"
    refused = made(tmp_path, phase=Phase.REFUSED, job_id=None)
    assert of_run(refused, ()) == "unsubmitted"
    assert attempts.gpu_hours(refused, StoredPlan(gpus=8), (), now=1.0) == 0.0


CODES = st.sampled_from(["0", "1", "86", "137", "138", "143", "unknown"])
NOTES = ("notice", "timeout", "terminated", "cancelled", "lost")
REASONS = st.sampled_from(["timeout", "node_failure", "preempt", "failure"])
AT = "2026-01-01T00:00:00+00:00"
RUN = Run(
    RunDirectory(Path("/nonexistent/a-1")),
    Record("a", "t", "slurm", "slurm", "d", AT, Phase.SUBMITTED, "7", AT),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """What a script can write in its starts, cut at any line; all within the same hour."""
    lines: list[tuple[str, str]] = []
    for number in range(draw(st.integers(1, 3))):
        lines.append(("started", str(number)))
        if draw(st.integers(0, 5)) == 0:
            lines += [("skipped", "0"), ("ended", draw(CODES))]
            continue
        lines += [("restarted", "1")] * draw(st.integers(0, 2))
        kinds = draw(st.lists(st.sampled_from(NOTES), max_size=3))
        lines += [(kind, "0") for kind in kinds]
        end = draw(st.sampled_from(["ended", "requeued", "over", "finishing", "killed"]))
        if end == "requeued":
            lines += [("again", draw(REASONS)), ("requeued", draw(CODES))]
        elif end in {"over", "finishing"}:
            lines.append(("over", draw(st.sampled_from(["completed", "failure", "timeout"]))))
            lines += [("finishing", draw(CODES))] * (end == "finishing")
        lines += [("ended", draw(CODES))] * (end != "killed" and draw(st.booleans()))
    cut = lines[: draw(st.integers(1, len(lines)))]
    return [Event(what, "7", 1000 + place, value) for place, (what, value) in enumerate(cut)]


@given(logs())
def test_success_has_a_line_of_its_own_and_an_ended_job_does_not_live(log: list[Event]) -> None:
    last = starts(log)[-1]
    ended, state = last.last("ended"), of_run(RUN, log)
    assert state != "completed" or (ended and ended.value == "0" and not last.all("terminated"))
    assert state != "running" or not ended
    assert not ended or ended.number is None or state not in {"running", "ended"}


@given(logs())
def test_a_later_event_changes_no_attempt_before_the_last(log: list[Event]) -> None:
    whole = {one.number: one for one in attempts.of_events(RUN, StoredPlan(), log, 9999.0)}
    for cut in range(1, len(log)):
        for one in attempts.of_events(RUN, StoredPlan(), log[:cut], 9999.0)[:-1]:
            assert whole[one.number] == one


@given(logs())
def test_a_list_of_runs_and_the_attempts_have_one_word(log: list[Event]) -> None:
    """But attempts leave out starts without a program, and end before the steps; a cancelled job may live."""
    [*_, last] = attempts.of_events(RUN, StoredPlan(), log, 9999.0)
    kinds = {event.what for event in log}
    if not kinds & {"skipped", "cancelled", "requeued", "terminated", "finishing"}:
        assert of_run(RUN, log) == last.state


def test_the_nodes_can_read_event_logs() -> None:
    """Their oldest Python is 3.6, and hpcdist is not there."""
    text = Path(events.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert {line for line in text.splitlines() if line.startswith(("import ", "from "))} == {
        "import re",
        "from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple",
    }

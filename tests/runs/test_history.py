"""What the event log shows of a run: states that are no guesses, and GPU-hours that are exact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.runs import history
from hpcdist.runs.events import read
from hpcdist.runs.rundir import Phase, Run
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
        pytest.param(("started 12 0 0", "ended 12 3600 0"), "ended", 2.0, id="ended"),
        pytest.param(
            ("started 12 0 0", "ended 12 3600 1", "started 12 7200 1", "ended 12 9000 0"),
            "ended",
            3.0,
            id="two attempts",
        ),
        pytest.param(
            ("started 12 0 0", "ended 12 3600 1", "started 12 32400 1"), "running", 4.0, id="the second runs"
        ),
        pytest.param(
            ("started 12 0 0", "started 12 7200 1", "ended 12 9000 0"), "ended", None, id="an end was lost"
        ),
        pytest.param(
            ("started 12 0 0", "cancelled 12 60 0"), "unknown", None, id="cancelled, without an end"
        ),
        pytest.param(("cancelled 12 60 0",), "unknown", None, id="cancelled before its start"),
        pytest.param(("started 12 7200 0", "ended 12 3600 0"), "ended", 0.0, id="a clock that was set back"),
        pytest.param(("ended 12 3600 0",), "ended", None, id="its start was lost"),
        pytest.param(("started 12 0 0", "timeout 12 3600 0"), "ended", None, id="killed at its limit"),
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
    assert history.state(run, events) == state
    assert history.gpu_hours(run, StoredPlan(gpus=2), events, now=36000.0) == hours
    assert history.gpu_hours(run, StoredPlan(), events, now=36000.0) is None


def with_plan(run: Run, **request: object) -> Run:
    (run.directory.path / "plan.json").write_text(json.dumps({"request": request}))
    return run


def test_elements_of_an_array(tmp_path: Path) -> None:
    run = with_plan(made(tmp_path), array={"ranges": [{"first": 0, "last": 1}]})
    lines = ["started 12_0 0 0", "started 12_1 0 0", "ended 12_0 3600 0"]
    for more, state, hours in (([], "running", 11.0), (["ended 12_1 1800 0"], "ended", 1.5)):
        (run.directory.path / "events").write_bytes(log(*lines, *more))
        events = run.directory.events()
        assert history.state(run, events) == state
        assert history.gpu_hours(run, StoredPlan(gpus=1), events, now=36000.0) == hours
    (run.directory.path / "events").write_bytes(log("started 12_0 0 0", "ended 12_0 3600 0"))
    assert history.state(run, run.directory.events()) == "unknown"


@pytest.mark.parametrize(("requeue", "state"), [(True, "unknown"), (False, "ended")])
def test_a_job_that_may_have_been_requeued(tmp_path: Path, requeue: object, state: str) -> None:
    run = with_plan(made(tmp_path), requeue=requeue)
    assert history.state(run, read(log("started 12 0 0", "ended 12 9 143"))) == state


def test_states_of_the_record(tmp_path: Path) -> None:
    ended = Status(JobState.FAILED, exit_code=1)
    assert history.state(made(tmp_path, ended=ended), read(log("started 12 0 0"))) == "failed"
    refused = made(tmp_path, phase=Phase.REFUSED, job_id=None)
    assert history.state(refused, ()) == "unsubmitted"
    assert history.gpu_hours(refused, StoredPlan(gpus=8), (), now=1.0) == 0.0

"""The attempts of a run as a timeline."""

from __future__ import annotations

from hpcdist.report import attempts
from hpcdist.report.attempts import Attempt, Bar, Timeline
from hpcdist.report.limits import Share
from hpcdist.runs.events import Event
from hpcdist.runs.record import Record

RECORD = Record("train", "t", "local", "local", "d", "1970-01-01T00:01:40+00:00")
"""Made at 100."""


def test_a_job_that_waited_was_requeued_and_failed() -> None:
    events = [
        Event("submitted", "7", 100, "n"),
        Event("started", "7", 120, "0"),
        Event("ended", "7", 140, "143"),
        Event("started", "7", 160, "1"),
        Event("ended", "7", 200, "3"),
    ]
    first, second = Attempt("7", 0, 120, 140, "143"), Attempt("7", 1, 160, 200, "3")
    assert attempts.timeline(RECORD, events, 999.0, is_over=True) == Timeline(
        100.0, 200, Share([Bar(first, (0, 20), (20, 20)), Bar(second, (40, 20), (60, 40))])
    )


def test_an_attempt_without_an_end_lasts_until_now_while_the_job_may_live() -> None:
    events = [Event("started", "7", 100, "0")]
    live = attempts.timeline(RECORD, events, 300.0, is_over=False)
    over = attempts.timeline(RECORD, events, 300.0, is_over=True)
    assert (live, over) == (
        Timeline(100, 300, Share([Bar(Attempt("7", 0, 100), (0, 0), (0, 100))])),
        Timeline(100, 100, Share([Bar(Attempt("7", 0, 100), (0, 0), (0, 0))])),
    )


def test_a_run_that_never_started_has_none() -> None:
    assert attempts.timeline(RECORD, [Event("submitted", "7", 100, "n")], 300.0, is_over=True) is None


def test_the_attempts_of_a_large_array_are_bounded() -> None:
    events = [Event("started", f"7_{number}", 100 + number, "0") for number in range(1000)]
    line = attempts.timeline(RECORD, events, 2000.0, is_over=False)
    assert line
    assert (len(line.bars.items), line.bars.left_out) == (60, 940)

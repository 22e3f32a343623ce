"""The attempts of a run as a timeline."""

from __future__ import annotations

from hpcdist.runs.state import Attempt
from hpcdist.tracking import report_data
from hpcdist.tracking.report_data import Bar, Share, Timeline


def test_a_job_that_waited_was_requeued_and_failed() -> None:
    first = Attempt("7", (0, 0), "requeued", 100, 120, 140, exit_code=143)
    second = Attempt("7", (1, 0), "failed", 140, 160, 200, exit_code=3)
    assert report_data.timeline([first, second], 999.0) == Timeline(
        100, 200, Share([Bar(first, (0, 20), (20, 20)), Bar(second, (40, 20), (60, 40))])
    )


def test_what_runs_or_waits_lasts_until_now() -> None:
    running = Attempt("7", (0, 0), "running", 100, 200)
    waiting = Attempt("8", (0, 0), "pending", 250)
    assert report_data.timeline([running, waiting], 300.0) == Timeline(
        100, 300, Share([Bar(running, (0, 50), (50, 50)), Bar(waiting, (75, 25), (0, 0))])
    )


def test_an_attempt_of_unknown_end_is_no_longer_than_its_start() -> None:
    lost = Attempt("7", (0, 0), "unknown", 100, 200)
    assert report_data.timeline([lost], 300.0) == Timeline(100, 200, Share([Bar(lost, (0, 100), (100, 0))]))


def test_without_a_time_there_is_none() -> None:
    assert report_data.timeline([], 300.0) is None
    assert report_data.timeline([Attempt("7", (0, 0), "unknown")], 300.0) is None


def test_the_attempts_of_a_large_array_are_bounded() -> None:
    found = [Attempt(f"7_{number}", (0, 0), "running", 100, 100 + number) for number in range(1000)]
    line = report_data.timeline(found, 2000.0)
    assert line
    assert (len(line.bars.items), line.bars.left_out) == (60, 940)

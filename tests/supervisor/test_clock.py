"""What is due before a time limit."""

from __future__ import annotations

import pytest
from supervisor.clock import END, KILL, NOTICE, Clock, Limit, limit


@pytest.mark.parametrize(
    ("notice", "left", "found"),
    [
        (300, 3600, (300, 30, 10)), (60, 3600, (60, 30, 10)), (30, 3600, (30, 15, 5)),
        (15, 3600, (15, 7.5, 2.5)), (300, 60, (30, 15, 5)), (300, 0, (0, 0, 0)),
    ],
)  # fmt: skip
def test_a_program_is_killed_before_the_limit_however_short_the_notice_and_the_time(
    notice: int, left: int, found: tuple[float, float, float]
) -> None:
    """Slurm shortens the limit of a job whose EndTime is set; a program that has just begun traps nothing."""
    assert limit(now=1000, at=1000 + left, notice=notice) == Limit(1000 + left, *found)


def test_each_is_due_once() -> None:
    clock = Clock(limit(now=0, at=1000, notice=100))
    moments = (0, 899, 900, 901, 969, 970, 971, 979, 980, 981)
    assert [clock.due(now) for now in moments] == ["", "", NOTICE, "", "", END, "", "", KILL, ""]


def test_a_limit_that_was_put_off_is_kept_to() -> None:
    clock = Clock(limit(now=0, at=1000, notice=100))
    assert not clock.near(899)
    assert clock.near(900)
    clock.put_off(2000)
    assert clock.due(900) == ""
    assert clock.due(1900) == NOTICE
    for earlier in (1500, None):
        clock.put_off(earlier)
    assert clock.limit.at == 2000

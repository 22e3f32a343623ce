"""A batch system that hangs costs its time once, and keeps nobody else waiting."""

from __future__ import annotations

import threading

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.runs.services import run_parallel, with_deadline


class Hanging:
    """A runner whose commands use up their time, on a clock of its own."""

    def __init__(self) -> None:
        self.time = 0.0
        self.timeouts: list[float] = []

    def run(self, command: Command) -> Completed:
        self.timeouts.append(command.timeout)
        self.time += command.timeout
        return Completed(command, 124, timed_out=True)


def test_after_the_deadline_nothing_is_run() -> None:
    hanging = Hanging()
    runner = with_deadline(hanging, lambda: hanging.time)
    answers = [runner.run(Command(("qstat",))) for _ in range(3)]
    assert [answer.timed_out for answer in answers] == [True, True, True]
    assert hanging.timeouts == [60]


def test_each_command_has_what_is_left() -> None:
    hanging = Hanging()
    runner = with_deadline(hanging, lambda: hanging.time)
    for timeout in (15, 30, 60, 60):
        runner.run(Command(("qstat",), timeout=timeout))
    assert hanging.timeouts == [15, 30, 15]


def test_a_longer_timeout_may_exceed_the_deadline() -> None:
    hanging = Hanging()
    runner = with_deadline(hanging, lambda: hanging.time)
    runner.run(Command(("true",), timeout=10))
    runner.run(Command(("qacct",), timeout=560))
    assert hanging.timeouts == [10, 550]


def test_calls_run_at_once() -> None:
    meeting = threading.Barrier(3)

    def call() -> int:
        return meeting.wait(timeout=20)

    assert sorted(run_parallel([call] * 3)) == [0, 1, 2]


def test_results_are_in_order_and_the_first_error_is_raised() -> None:
    assert run_parallel([lambda n=n: n for n in range(50)]) == list(range(50))  # type: ignore[misc]

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_parallel([fail, lambda: None])

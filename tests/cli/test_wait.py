"""The patience of ``hpcdist wait --timeout``."""

from __future__ import annotations

import pytest

from hpcdist.cli.jobs.wait import TimeIsUp, patient
from hpcdist.host.command import Command
from hpcdist.runs.services import World
from hpcdist.testing import FakeShell


@pytest.mark.parametrize(("seconds", "limit"), [(0, 10), (5, 10), (30, 30), (500, 60)])
def test_even_without_patience_there_is_one_answer(seconds: float, limit: float) -> None:
    shell = FakeShell([(("squeue",), "")])
    world = patient(World(shell, now=lambda: 1000.0, sleep=lambda _: None), seconds)
    assert world.runner.run(Command(("squeue",))).ok
    assert [command.timeout for command in shell.commands] == [limit]


def test_sleeping_on_ends_the_patience() -> None:
    slept: list[float] = []
    world = patient(World(FakeShell(), now=lambda: 1000.0 + sum(slept), sleep=slept.append), 5)
    world.sleep(3)
    world.sleep(3)
    assert slept == [3, 2]
    with pytest.raises(TimeIsUp):
        world.sleep(1)

"""The patience of ``hpcdist wait --timeout``."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base.command import Command
from hpcdist.base.errors import WaitTimeout
from hpcdist.cli.jobs.wait import wait
from hpcdist.runs.services import Services
from hpcdist.runs.waiting import with_time_limit
from hpcdist.testing import FakeShell
from tests.cli.test_follow import a_run
from tests.wording import Wording


@pytest.mark.parametrize(("seconds", "limit"), [(0, 10), (5, 10), (30, 30), (500, 60)])
def test_a_short_timeout_still_allows_one_query(seconds: float, limit: float) -> None:
    shell = FakeShell([(("squeue",), "")])
    services = with_time_limit(Services(shell, now=lambda: 1000.0, sleep=lambda _: None), seconds)
    assert services.runner.run(Command(("squeue",))).ok
    assert [command.timeout for command in shell.commands] == [limit]


def test_sleeping_beyond_the_timeout_raises() -> None:
    slept: list[float] = []
    services = with_time_limit(Services(FakeShell(), now=lambda: 1000.0 + sum(slept), sleep=slept.append), 5)
    services.sleep(3)
    services.sleep(3)
    assert slept == [3, 2]
    with pytest.raises(WaitTimeout):
        services.sleep(1)


def test_waiting_for_a_job_that_fails_prints_why(
    folder: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Its log has the sentence, and `wait` does not show that."""
    run = a_run(folder)
    (run.directory.logs / "job.out").write_text("hpcdist: there is no mpirun on n1; load its module\n")
    run.directory.write("events", "started 7 1000 0\nended 7 1001 86\n")
    (report,) = wait([run], Services(FakeShell([(lambda command: bool(command.argv), "")])))
    assert report.status.exit_code == 86
    wording(capsys.readouterr().err)


def test_a_job_that_met_its_time_limit_can_be_resumed(
    folder: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    run = a_run(folder)
    run.directory.write("events", "started 7 1000 0\ntimeout 7 1001 0\nended 7 1001 143\n")
    wait([run], Services(FakeShell([(lambda command: bool(command.argv), "")])))
    wording(capsys.readouterr().err)

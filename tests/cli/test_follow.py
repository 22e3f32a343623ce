"""How often the batch system is asked while a job is followed, and what its end means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcdist.cli.jobs import exit_codes
from hpcdist.cli.jobs.logs import follow
from hpcdist.cli.jobs.runs import sentence
from hpcdist.runs import rundir
from hpcdist.runs.job_states import Report
from hpcdist.runs.logs import Watch
from hpcdist.runs.rundir import Phase, Record, Run
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState, Status
from hpcdist.testing import FakeShell, failed
from tests.plans import stored
from tests.wording import Wording


@dataclass
class Clock:
    """Time that passes only when it is told to."""

    at: float = 1000.0

    def now(self) -> float:
        return self.at


def a_run(folder: Path) -> Run:
    record = Record(
        name="x",
        token="t0",  # noqa: S106 - it is no password
        site="toy",
        scheduler="slurm",
        digest="",
        created_at="2026-01-01T00:00:00+00:00",
        phase=Phase.SUBMITTED,
        job_id="7",
    )
    return Run(rundir.create(folder / "runs", "x"), record)


def test_frequent_output_does_not_cause_frequent_queries(folder: Path) -> None:
    clock, shell = Clock(), FakeShell([(lambda command: bool(command.argv), "")])
    run = a_run(folder)
    watch = Watch(run, Services(shell, now=clock.now))
    assert not watch.is_over()
    at_first = len(shell.commands)
    for _ in range(9):
        assert not watch.is_over()
    assert len(shell.commands) == at_first
    clock.at += 60
    watch.is_over()
    assert len(shell.commands) == 2 * at_first
    clock.at += 5.9
    watch.is_over()
    assert len(shell.commands) == 2 * at_first
    clock.at += 0.2
    watch.is_over()
    assert len(shell.commands) == 3 * at_first


def test_an_end_in_the_event_log_queries_at_once(folder: Path) -> None:
    shell = FakeShell([(lambda command: bool(command.argv), "")])
    run = a_run(folder)
    watch = Watch(run, Services(shell, now=Clock().now))
    assert not watch.is_over()
    run.directory.write("events", "started 7 1000 0\nended 7 1001 3\n")
    assert watch.is_over()
    assert watch.report is not None
    assert exit_codes.of_status(watch.report.status) == 3


def elements(count: int) -> str:
    return "".join(f"ended 7_{index} 1001 0\n" for index in range(1, count + 1))


def test_the_last_end_of_an_array_queries_at_once(folder: Path) -> None:
    shell = FakeShell([(lambda command: bool(command.argv), "")])
    run = a_run(folder)
    run.directory.write("plan.json", stored("1-3"))
    watch = Watch(run, Services(shell, now=Clock().now))
    watch.is_over()
    asked = len(shell.commands)
    for count, is_asked in ((1, False), (2, False), (3, True)):
        run.directory.write("events", elements(count))
        assert (watch.is_over(), len(shell.commands) > asked) == (is_asked, is_asked)


def test_following_ends_after_a_long_silence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The batch system does not answer for 15 minutes, nor does the job write a line meanwhile."""
    run = a_run(folder)
    output = run.directory.logs / "job.out"
    output.write_text("first\n")
    late = [1700.0, 2400.0]

    def sleep(seconds: float) -> None:
        clock.at += seconds
        while late and clock.at >= late[0]:
            output.write_text("first\nsecond\n" if late.pop(0) < 2000 else "first\nsecond\nthird\n")

    clock, shell = Clock(), FakeShell([(lambda command: bool(command.argv), failed(1, "slurm is down"))])
    report = follow(run, Services(shell, clock.now, sleep))
    assert report.status == Status(JobState.UNKNOWN, reason="the batch system did not answer: slurm is down")
    assert 3300 < clock.at < 3400
    out, err = capsys.readouterr()
    assert out == "first\nsecond\nthird\n"
    assert err == "note: x-1: the batch system did not answer: slurm is down\n"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status(JobState.COMPLETED, exit_code=0), 0),
        (Status(JobState.COMPLETED), 0),
        (Status(JobState.FAILED, exit_code=3), 3),
        (Status(JobState.FAILED, reason="it vanished"), 1),
        (Status(JobState.CANCELLED, exit_code=0), 1),
        (Status(JobState.OUT_OF_MEMORY, exit_code=137), 137),
        (Status(JobState.TIMEOUT, exit_code=143), 143),
        (Status(JobState.TIMEOUT, exit_code=137), 143),
        (Status(JobState.TIMEOUT), 143),
        (Status(JobState.NODE_FAIL), 1),
        (Status(JobState.UNSUBMITTED, reason="refused"), 5),
        (Status(JobState.UNKNOWN), 5),
    ],
    ids=lambda value: (
        f"{value.state} {value.exit_code} {value.reason}" if isinstance(value, Status) else str(value)
    ),
)
def test_sentence_and_exit_code_of_each_end(
    status: Status, code: int, folder: Path, wording: Wording
) -> None:
    assert exit_codes.of_status(status) == code
    wording(sentence(Report(a_run(folder), status)))


def test_a_laptop_that_slept_does_not_end_following(folder: Path) -> None:
    """Its clock has gone on for hours; the first look behind that may well fail."""
    clock, shell = Clock(), FakeShell([(lambda command: bool(command.argv), failed(1, "no network"))])
    watch = Watch(a_run(folder), Services(shell, clock.now, lambda _: None))
    assert not watch.is_over()
    clock.at += 7200
    assert not watch.is_over()
    watch.sleep(901)
    clock.at += 7200
    assert watch.is_over()

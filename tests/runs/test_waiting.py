"""Waiting: how long the pauses are, what ends them, and what is told meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.runs import rundir
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Record, Run
from hpcdist.runs.services import Services
from hpcdist.runs.waiting import pause_after, wait
from hpcdist.schedulers.flux import FLUX
from hpcdist.schedulers.job import Job, JobState
from hpcdist.schedulers.lsf import LSF
from hpcdist.testing import Answer, FakeShell, failed

RUNNING: Final = "100|RUNNING|None|hpcdist:t\n"


@dataclass
class Story:
    """A batch system's answers and what a job writes, by the time on a clock that only sleeping moves."""

    answer: Callable[[float], str]
    events: dict[float, str] = field(default_factory=dict)
    time: float = 0.0
    asked: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def squeue(self, command: Command) -> Completed:
        self.asked.append(self.time)
        return Completed(command, 0, self.answer(self.time))

    def services(self, run: Run, *, others: FakeShell | None = None) -> Services:
        def sleep(seconds: float) -> None:
            self.time += seconds
            text = "".join(line for at, line in self.events.items() if at <= self.time)
            (run.directory.path / "events").write_text(text)  # as a job does: without fsync

        rules: list[tuple[tuple[str], Answer]] = [
            (("squeue",), self.squeue),
            (("sacct",), ""),
            (("scontrol",), failed(1, "Invalid job id")),
        ]
        return Services(others or FakeShell(rules), lambda: self.time, sleep)

    def tell(self, report: Report) -> None:
        self.told.append(f"{self.time:.0f} {report.status.state.value} {report.status.reason}".strip())


def a_run(folder: Path, scheduler: str = "slurm") -> Run:
    record = Record("x", "t", "site", scheduler, "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "100")
    return Run(rundir.create(folder / "runs", "x"), record)


@pytest.mark.parametrize(
    ("waited", "local", "pause"),
    [(0, False, 1), (5, False, 1), (50, False, 5), (9000, False, 60), (0, True, 0.1), (90, True, 1)],
)  # fmt: skip
def test_a_pause_is_a_tenth_of_the_time_waited(waited: float, local: bool, pause: float) -> None:  # noqa: FBT001
    assert pause_after(waited, local=local) == pytest.approx(pause)


@pytest.mark.extended
def test_a_long_job_is_queried_once_a_minute(tmp_path: Path) -> None:
    story = Story(lambda at: RUNNING if at < 7200 else "100|COMPLETED|None|hpcdist:t\n")
    run = a_run(tmp_path)
    (report,) = wait([run], story.services(run))
    assert report.status.state is JobState.COMPLETED
    assert 7200 <= story.time < 7260
    assert len(story.asked) < 170
    assert all(later - at <= max(1, at / 10) + 0.01 for at, later in pairwise(story.asked))


@pytest.mark.extended
def test_an_end_in_the_event_log_ends_the_pause(tmp_path: Path) -> None:
    events = {3000.0: "started 100 3000 0\n", 5000.0: "ended 100 5000 0\n"}
    story = Story(lambda at: RUNNING if at < 5030 else "100|COMPLETED|None|hpcdist:t\n", events)
    run = a_run(tmp_path)
    wait([run], story.services(run))
    late = [at for at in story.asked if at >= 5000]
    assert late[0] < 5003
    assert story.time < 5040
    assert max(later - at for at, later in pairwise(late)) <= 10.01


def test_the_end_of_a_short_job_is_known_at_once(tmp_path: Path) -> None:
    """Its log is looked at between the questions, and the batch system, which lags, is asked again soon."""
    events = {2.0: "started 100 2 0\n", 3.2: "ended 100 3 0\n"}
    story = Story(lambda at: RUNNING if at < 3.3 else "100|COMPLETED|None|hpcdist:t\n", events)
    run = a_run(tmp_path)
    wait([run], story.services(run))
    assert story.time < 3.8
    assert len(story.asked) < 12


@pytest.mark.extended
def test_frequent_events_do_not_cause_frequent_queries(tmp_path: Path) -> None:
    events = {float(at): f"ended 100_{at} {at} 0\n" for at in range(1000, 2000)}
    story = Story(lambda at: RUNNING if at < 2000 else "100|COMPLETED|None|hpcdist:t\n", events)
    run = a_run(tmp_path)
    wait([run], story.services(run))
    assert sum(1000 <= at < 2000 for at in story.asked) < 120


@pytest.mark.extended
@pytest.mark.parametrize("plan", ['{"array": "1-3"}', "{}"])
def test_pauses_grow_again_after_a_restart(tmp_path: Path, plan: str) -> None:
    events = {1000.0: "started 100_1 1000 0\nended 100_1 1000 0\n", 1001.0: "started 100_2 1001 0\n"}
    story = Story(lambda at: RUNNING if at < 7000 else "100|COMPLETED|None|hpcdist:t\n", events)
    run = a_run(tmp_path)
    run.directory.write("plan.json", plan)
    wait([run], story.services(run))
    pauses = [later - at for at, later in pairwise(story.asked) if 2000 < at < 6900]
    assert pauses == [pytest.approx(60)] * len(pauses)


def test_the_reason_for_waiting_is_reported_once_per_change(tmp_path: Path) -> None:
    reasons = {
        0: "Resources",
        5: "Priority of 17 jobs",
        8: "Priority of 9 jobs",
        20: "Licenses",
    }

    def answer(at: float) -> str:
        reason = next(reason for since, reason in reversed(reasons.items()) if at >= since)
        return f"100|PENDING|{reason}|hpcdist:t\n" if at < 30 else "100|CANCELLED|None|hpcdist:t\n"

    story = Story(answer)
    run = a_run(tmp_path)
    wait([run], story.services(run), on_change=story.tell)
    assert [line.split(maxsplit=1)[1] for line in story.told] == [
        "pending Resources",
        "pending Priority of 17 jobs",
        "pending Licenses",
        "cancelled",
    ]


JOB = Job("100", "x", "/runs/x-1", "t")


def test_schedulers_that_can_wait_themselves() -> None:
    assert LSF.wait(JOB).argv == ("bwait", "-w", "ended(100)")
    assert FLUX.wait(JOB).argv == ("flux", "job", "wait-event", "--quiet", "100", "clean")


@pytest.mark.parametrize("can_wait", [True, False])
def test_the_schedulers_own_waiting(tmp_path: Path, *, can_wait: bool) -> None:
    """It is not asked again where it cannot wait."""
    run = a_run(tmp_path, "lsf")
    story = Story(lambda _: "")
    waited: list[float] = []

    def bjobs(command: Command) -> Completed:
        stat = "RUN" if story.time < 1000 else "DONE"
        story.asked.append(story.time)
        return Completed(command, 0, f"100|0|{stat}|0|-|-|hpcdist:t\n")

    def bwait(command: Command) -> Completed:
        waited.append(command.timeout)
        if not can_wait:
            return Completed(command, 127, missing=True)
        left = 1000 - story.time
        story.time += min(left, command.timeout)
        timed_out = left > command.timeout
        return Completed(command, 124 if timed_out else 0, timed_out=timed_out)

    shell = FakeShell([(("bwait",), bwait), (("bash",), bjobs)])
    wait([run], story.services(run, others=shell))
    assert story.time == pytest.approx(1000, abs=0 if can_wait else 60)
    assert len(story.asked) < 65
    assert (len(waited) > 10, max(waited) <= 60) == (can_wait, True)


def test_a_command_that_ends_at_once_is_no_pause(tmp_path: Path) -> None:
    """As one does after its deadline, or where the list of jobs lags behind."""
    run = a_run(tmp_path, "lsf")
    story = Story(lambda _: "")

    def bjobs(command: Command) -> Completed:
        story.asked.append(story.time)
        stat = "RUN" if story.time < 1000 else "DONE"
        return Completed(command, 0, f"100|0|{stat}|0|-|-|hpcdist:t\n")

    def bwait(command: Command) -> Completed:
        return Completed(command, 124, timed_out=True)

    wait([run], story.services(run, others=FakeShell([(("bwait",), bwait), (("bash",), bjobs)])))
    assert len(story.asked) < 65

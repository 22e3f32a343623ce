"""How far a search is, once and until its end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.cli.jobs import sweep
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.searches import progress
from hpcdist.testing import FakeShell
from tests.plans import stored
from tests.runs.test_event_states import log
from tests.searches.test_trials import run


class Terminal(io.StringIO):
    """A file that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def searched(tmp_path: Path) -> Run:
    """Return a search of three trials, one at once, on a Slurm."""
    found = run(tmp_path)
    plan = json.loads((found.directory.path / "plan.json").read_text())
    found.directory.write("plan.json", json.dumps(plan | json.loads(stored("1-3%1"))))
    record = replace(found.record, scheduler="slurm", job_id="12", trials="1-3")
    rundir.save(found.directory, record)
    return rundir.read(found.directory)


def services(searched: Run, *moments: tuple[str, tuple[str, ...]]) -> Services:
    """Return a Slurm whose squeue and event log go through these moments, one a query."""
    left: Iterator[tuple[str, tuple[str, ...]]] = iter(moments)
    last: list[str] = [""]

    def squeue(command: Command) -> Completed:
        answer, events = next(left, (last[0], None))
        last[0] = answer
        if events is not None:
            searched.directory.write("events", log(*events).decode())
        return Completed(command, 0, answer)

    def nothing(command: Command) -> Completed:
        return Completed(command, 0, "")

    def sacct(command: Command) -> Completed:
        return Completed(command, 0, "")

    answers: list[tuple[tuple[str, ...], Callable[[Command], Completed]]] = [
        (("squeue",), squeue), (("sacct",), sacct), (("scontrol",), nothing),
    ]  # fmt: skip
    return Services(FakeShell(answers), lambda: 1_000.0, lambda _: None)


WAITING = "12_[1-3%1]|PENDING|Priority|hpcdist:abc\n"
ONE = "12_1|RUNNING|None|hpcdist:abc\n12_[2-3%1]|PENDING|JobArrayTaskLimit|hpcdist:abc\n"
TWO = "12_2|RUNNING|None|hpcdist:abc\n12_[3%1]|PENDING|JobArrayTaskLimit|hpcdist:abc\n"
FIRST = ("started 12_1 100 0",)
SECOND = (*FIRST, "ended 12_1 160 0", "started 12_2 160 0")
LAST = (*SECOND, "ended 12_2 220 3", "started 12_3 220 0", "ended 12_3 280 0")


def test_a_search_waits_for_its_job_or_for_those_that_run(searched: Run) -> None:
    before = progress.look(searched, services(searched, (WAITING, ())))
    assert (before.progress.counts, before.waits_for) == ({"pending": 3}, ("job 12 is pending: Priority",))
    then = progress.look(searched, services(searched, (ONE, FIRST)))
    assert (then.progress.counts, then.waits_for) == (
        {"running": 1, "pending": 2},
        ("the one that may run at once",),
    )
    assert (before.ended, then.ended) == (0, 0)


def test_elsewhere_than_on_a_terminal_there_is_a_line_a_change(searched: Run) -> None:
    out = io.StringIO()
    moments = ((WAITING, ()), (WAITING, ()), (ONE, FIRST), (TWO, SECOND), ("", LAST))
    end = sweep.follow(searched, services(searched, *moments), out)
    assert [line.partition("; ")[0] for line in out.getvalue().splitlines()] == [
        "mnist-1: 3 trials: 3 pending",
        "mnist-1: 3 trials: 1 running, 2 pending",
        "mnist-1: 3 trials: 1 completed, 1 running, 1 pending",
        "mnist-1: 3 trials: 2 completed, 1 failed",
    ]
    assert (end.report.is_over, end.ended) == (True, 3)


def test_on_a_terminal_there_is_a_bar(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    sweep.follow(searched, services(searched, (ONE, FIRST), (TWO, SECOND), ("", LAST)), out)
    shown = out.getvalue()
    assert "\x1b[" in shown
    assert [text for text in ("0/3", "1/3", "3/3") if text in shown] == ["0/3", "1/3", "3/3"]
    assert "━" in shown

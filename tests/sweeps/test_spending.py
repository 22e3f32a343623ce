"""The budget of a search: ends that the event log lacks come from the batch system's accounting."""

from __future__ import annotations

from pathlib import Path

from hpcdist.runs import accounting
from hpcdist.runs.rundir import Event
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers.accounting import Usage
from hpcdist.schedulers.job import JobState, Status
from hpcdist.sweeps import spending
from hpcdist.testing import FakeShell
from tests.sweeps.test_trials import run

LOST = Status(JobState.NODE_FAIL, source="sacct")
LATER = Services(FakeShell([]), now=lambda: 9000.0)


def test_an_end_that_only_the_accounting_has_is_recorded_once(tmp_path: Path) -> None:
    searched = run(
        tmp_path, "started 12_1 100 0", "started 12_2 110 0", "ended 12_2 160 0", "started 12_3 120 0"
    )
    usage = (
        Usage(1, JobState.NODE_FAIL, started=99.0, ended=130.5),
        Usage(2, JobState.COMPLETED, started=109.0, ended=161.0),
        Usage(3, JobState.RUNNING, started=119.0),
    )
    searched.directory.write(accounting.FILE, accounting._encode(usage))
    ended = searched._replace(record=searched.record._replace(ended=LOST))
    for _ in range(2):
        spending.record(Report(ended, LOST), LATER)
    assert searched.directory.events()[4:] == (Event("accounted", "12_1", 130, "0"),)


def test_without_accounting_nothing_is_recorded(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12_1 100 0")
    searched.directory.write(accounting.FILE, "[]")
    ended = searched._replace(record=searched.record._replace(ended=LOST))
    spending.record(Report(ended, LOST), LATER)
    assert len(searched.directory.events()) == 1

"""The budget of a search: ends that the event log lacks come from the batch system's accounting."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError
from hpcdist.plan.trials import Pack, Sweep
from hpcdist.plan.values import Origin
from hpcdist.runs import accounting
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Event
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState, Status, Usage
from hpcdist.searches import budget
from hpcdist.testing import FakeShell
from tests.searches.test_trials import run
from tests.wording import Wording

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
    searched.directory.write(accounting.FILE, msgspec.json.encode(usage).decode())
    ended = searched._replace(record=replace(searched.record, ended=LOST))
    for _ in range(2):
        budget.record(Report(ended, LOST), LATER)
    assert searched.directory.events()[4:] == (Event("accounted", "12_1", 130, "0"),)


def test_without_accounting_nothing_is_recorded(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12_1 100 0")
    searched.directory.write(accounting.FILE, "[]")
    ended = searched._replace(record=replace(searched.record, ended=LOST))
    budget.record(Report(ended, LOST), LATER)
    assert len(searched.directory.events()) == 1


def test_what_has_ended_is_what_a_further_trial_must_leave_room_for(tmp_path: Path, wording: Wording) -> None:
    """A trial may take 2 GPUs for 60 s; what has no end yet is counted by the script, when it starts."""
    searched = run(
        tmp_path, "started 12_1 100 0", "ended 12_1 150 0", "started 12_2 100 0", "accounted 12_2 140 0",
        "started 12_3 100 0",
    )  # fmt: skip
    sweep = Sweep(3, ("lr",), budget=300, cost=120)
    budget.check(searched.directory, searched.directory.events(), sweep, 60)
    budget.check(searched.directory, searched.directory.events(), replace(sweep, budget=None), 60)
    with pytest.raises(ConfigError) as caught:
        budget.check(searched.directory, searched.directory.events(), replace(sweep, budget=299), 60)
    wording(map(str, caught.value.problems))


def test_of_packed_trials_whole_jobs_are_counted_each_with_its_gpus(tmp_path: Path) -> None:
    searched = run(
        tmp_path, "started 13+1 100 0", "requeued 13+1 150 0", "started 13+1 200 1", "ended 13+1 250 0",
    )  # fmt: skip
    searched.directory.write("plan.json", json.dumps({"sweep": {"pack": {"workers": 4}}}))
    place = searched.directory.path / "jobs" / "13+1"
    place.mkdir(parents=True)
    pack = Pack(workers=4, nodes=1, per_node=4, origin=Origin("default"))
    sweep = Sweep(3, ("lr",), budget=520, cost=120, pack=pack)
    budget.check(searched.directory, searched.directory.events(), sweep, 60)
    (place / "cost").write_text("cost 13+1 4 120\n")
    budget.check(searched.directory, searched.directory.events(), sweep, 60)
    (place / "cost").write_text("cost 13+1 5 120\n")
    with pytest.raises(ConfigError, match=r"0\.1389 of 0.1444 GPU-hours are spent"):
        budget.check(searched.directory, searched.directory.events(), sweep, 60)

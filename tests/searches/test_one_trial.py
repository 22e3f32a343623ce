"""One trial of a search, or element of an array."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import ConfigError, SchedulerError
from hpcdist.runs import cancelling, endings
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Elsewhere, Services
from hpcdist.schedulers.job import JobState, Status
from hpcdist.searches import trials
from hpcdist.searches.trials import OneTrial
from hpcdist.testing import FakeShell
from tests.plans import stored
from tests.runs.test_event_states import log
from tests.runs.test_rundir import made
from tests.searches.test_trials import RUNNING, run
from tests.wording import Wording

PENDING: Final = Status(JobState.PENDING, "PENDING", reason="Priority", source="squeue")


def find(report: Report, number: int) -> OneTrial:
    return trials.find(report, number, lambda _: (), 200)


def on_slurm(searched: Run, scheduler: str = "slurm", trials: str = "") -> Run:
    return searched._replace(record=replace(searched.record, scheduler=scheduler, trials=trials))


def services(*answers: tuple[str, ...], code: int = 0, stderr: str = "") -> Services:
    def answer(command: Command) -> Completed:
        return Completed(command, code, "", stderr)

    return Services(FakeShell([(one, answer) for one in answers]), lambda: 150)


def test_a_trial_has_its_state_its_attempts_and_its_id(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12_1 100 0", "started 12_2 110 0", "ended 12_2 120 3")
    found = [find(Report(searched, RUNNING), number) for number in (1, 2, 3)]
    assert [(one.name, one.event_id, one.trial.state) for one in found] == [
        ("mnist-1/1", "12_1", "running"),
        ("mnist-1/2", "12_2", "failed"),
        ("mnist-1/3", "12_3", "pending"),
    ]
    assert [[attempt.job for attempt in one.attempts] for one in found] == [["12_1"], ["12_2"], []]


def test_a_trial_that_runs_once_more_has_the_state_of_its_last_job(tmp_path: Path) -> None:
    searched = run(tmp_path, "started 12_2 110 0", "ended 12_2 120 3")
    again = Run(searched.directory._replace(number=2), replace(searched.record, job_id="13", trials="2"))
    searched = searched._replace(record=replace(searched.record, trials="1-3"), later=(again,))
    over = Status(JobState.FAILED, "FAILED", 3, source="sacct")
    report = Report(searched, PENDING, (Report(searched._replace(later=()), over), Report(again, PENDING)))
    found = find(report, 2)
    assert (found.event_id, found.trial.state, [one.state for one in found.attempts]) == (
        "13_2",
        "pending",
        ["failed"],
    )
    assert find(report, 1).event_id == "12_1"


def test_an_element_of_an_array_is_found_as_a_trial_is(tmp_path: Path, wording: Wording) -> None:
    array = made(tmp_path)
    array.directory.write("events", log("started 12_4 100 0", "ended 12_4 160 0").decode())
    array.directory.write("plan.json", stored("0-3,4-8:4"))
    assert find(Report(array, RUNNING), 4).trial.state == "completed"
    with pytest.raises(ConfigError) as error:
        find(Report(array, RUNNING), 5)
    wording(str(error.value))


def test_what_is_no_trial_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        find(Report(run(tmp_path), RUNNING), 4)
    wording(str(caught.value))
    with pytest.raises(ConfigError) as caught:
        find(Report(made(tmp_path), RUNNING), 1)
    wording(str(caught.value))


def test_the_element_at_the_place_of_the_trial_is_cancelled_and_noted(tmp_path: Path) -> None:
    searched = on_slurm(run(tmp_path, "started 12_17 100 0", count=20), trials="3,17,20")
    asked = services(("scancel",))
    assert trials.cancel(find(Report(searched, RUNNING), 17), asked)
    assert trials.cancel(find(Report(searched, RUNNING), 20), asked)
    assert isinstance(asked.runner, FakeShell)
    assert [command.argv for command in asked.runner.commands] == [("scancel", "12_2"), ("scancel", "12_3")]
    report = Report(searched, RUNNING)
    states = [find(report, number).trial.state for number in (3, 17, 20)]
    assert states == [
        "pending",
        "cancelled",
        "cancelled",
    ]
    assert [one.state for one in trials.trials(report, lambda _: (), 200)][16:] == [
        *("cancelled", "pending", "pending"),
        "cancelled",
    ]
    assert not trials.cancel(find(report, 17), asked)
    job = searched.job
    assert job
    assert not endings.has_ended(job)  # one of three


def test_an_element_cancelled_on_a_remote_is_recorded_there(tmp_path: Path) -> None:
    """The next look takes the event log from there: without the line, an element that waited has vanished."""
    searched = on_slurm(run(tmp_path, count=20), trials="3,17,20")
    searched = searched._replace(record=replace(searched.record, remote="far"))
    there = cast("Elsewhere", services(("scancel",), ("sh",)).runner)
    assert trials.cancel(find(Report(searched, RUNNING), 17), services()._replace(remote=lambda _: there))
    assert isinstance(there, FakeShell)
    scancel, written = there.commands
    assert searched.job
    assert scancel.argv == ("scancel", "12_2")
    assert written == endings.command_to_record([(searched.job, endings.cancellation(searched.job, 150, 17))])
    assert written.argv[-2:] == ("cancelled 12_17 150 0", searched.job.directory)


def test_a_refused_cancellation_is_no_success(tmp_path: Path) -> None:
    searched = on_slurm(run(tmp_path, "started 12_1 100 0"))
    denied = services(("scancel",), code=1, stderr="scancel: error: Access denied\n")
    with pytest.raises(SchedulerError, match=r"mnist-1/1 could not be cancelled: .*: Access denied"):
        trials.cancel(find(Report(searched, RUNNING), 1), denied)
    silent = Status(JobState.UNKNOWN, reason="the batch system did not answer")
    with pytest.raises(SchedulerError, match=r"not cancelled: .* the batch system did not answer"):
        trials.cancel(find(Report(searched, silent), 1), denied)
    assert find(Report(searched, RUNNING), 1).trial.state == "running"


def test_what_cannot_be_cancelled_alone_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(SchedulerError) as caught:
        trials.cancel(find(Report(on_slurm(run(tmp_path), "flux"), PENDING), 1), services())
    wording(str(caught.value))


def test_a_packed_trial_is_cancelled_by_a_file_until_it_is_resumed(tmp_path: Path) -> None:
    packed = on_slurm(run(tmp_path, "started 12 100 0"))
    packed.directory.write("plan.json", json.dumps({"sweep": {"pack": {"workers": 4}}}))
    packed.directory.write("events.12@n1", log("started 12_2 100 0").decode())
    report = Report(packed, RUNNING)
    assert all(trials.cancel(find(report, number), services()) for number in (2, 3))
    assert [find(report, number).trial.state for number in (1, 2, 3)] == ["pending", "running", "cancelled"]
    packed.directory.write("events.12@n1", log("started 12_2 100 0", "cancelled 12_2 160 143").decode())
    assert [find(report, number).trial.state for number in (1, 2, 3)] == ["pending", "cancelled", "cancelled"]
    assert not trials.cancel(find(report, 2), services())
    trials.return_trials(packed.directory, {3})
    assert trials.cancelled_alone(packed.directory) == {2}


@pytest.mark.parametrize("is_whole_first", [False, True])
def test_cancelled_packed_trial_and_cancelled_run_are_apart(tmp_path: Path, *, is_whole_first: bool) -> None:
    packed = on_slurm(run(tmp_path, "started 12 100 0"))
    packed.directory.write("plan.json", json.dumps({"sweep": {"pack": {"workers": 4}}}))
    if is_whole_first:
        cancelling.mark_cancelled(packed.directory)
    assert trials.cancel(find(Report(packed, RUNNING), 2), services())
    assert (cancelling.is_cancelled(packed.directory), trials.cancelled_alone(packed.directory)) == (
        is_whole_first,
        {2},
    )
    cancelling.mark_cancelled(packed.directory)
    assert cancelling.is_cancelled(packed.directory)
    cancelling.withdraw(packed.directory, attempts=True)
    assert (cancelling.is_cancelled(packed.directory), trials.cancelled_alone(packed.directory)) == (
        False,
        {2},
    )
    trials.return_trials(packed.directory, {2})
    assert trials.cancelled_alone(packed.directory) == set()


def test_a_packed_trial_on_a_remote_is_cancelled_there(tmp_path: Path) -> None:
    packed = on_slurm(run(tmp_path))
    packed = packed._replace(record=replace(packed.record, remote="far"))
    packed.directory.write("plan.json", json.dumps({"sweep": {"pack": {"workers": 4}}}))
    there = cast("Elsewhere", services(("sh",)).runner)
    assert trials.cancel(find(Report(packed, RUNNING), 3), services()._replace(remote=lambda _: there))
    assert isinstance(there, FakeShell)
    [command] = there.commands
    assert packed.job
    assert command == trials.command_to_cancel(packed.job.directory, 3)
    assert trials.cancelled_alone(packed.directory) == set()
    full = cast("Elsewhere", services(("sh",), code=1, stderr="no space\n").runner)
    with pytest.raises(SchedulerError, match="mnist-1/3 could not be cancelled: no space"):
        trials.cancel(find(Report(packed, RUNNING), 3), services()._replace(remote=lambda _: full))

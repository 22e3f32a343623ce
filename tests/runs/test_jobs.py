"""Runs of several jobs: each has its own record, and together they are one run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import SchedulerError, SubmissionUnknown
from hpcdist.runs import attempts, cancelling, elements, finding, job_states, rundir, submission
from hpcdist.runs.event_states import of_run
from hpcdist.runs.rundir import Phase, Run, RunDirectory
from hpcdist.runs.submission import SubmitRequest
from hpcdist.schedulers.job import JobState, Status
from hpcdist.testing import TIMED_OUT, failed
from tests.wording import Wording

from .test_submission import Killed, Queue, Seen, only_run


def files(directory: RunDirectory) -> Mapping[str, str]:
    return {directory._replace(number=number).own("job.sh"): "true\n" for number in (1, 2, 3)}


REQUEST = SubmitRequest(
    "mnist", "testbed", "slurm", "run: {cmd: train}\n", files, jobs=("1-2", "3-4", "5"), one_by_one=True
)


REFUSED = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n"


def ids(run: Run) -> list[str | None]:
    return [job.record.job_id for job in run.jobs]


def test_each_job_is_submitted_with_its_own_script_behind_the_one_before(tmp_path: Path) -> None:
    queue, seen = Queue(), Seen()
    run = submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    folder = tmp_path / "mnist-1"
    assert [command.argv[3:] for command in queue.shell.commands if command.argv[0] == "sbatch"] == [
        (str(folder / "job.sh"),),
        ("--dependency=afterany:100", str(folder / "job.2.sh")),
        ("--dependency=afterany:101", str(folder / "job.3.sh")),
    ]
    assert only_run(tmp_path) == run
    assert [(job.record.job_id, job.record.phase, job.record.trials) for job in run.jobs] == [
        ("100", Phase.SUBMITTED, "1-2"),
        ("101", Phase.SUBMITTED, "3-4"),
        ("102", Phase.SUBMITTED, "5"),
    ]
    assert (seen.results, len(set(queue.tokens.values()))) == ([("mnist-1", "100")], 3)
    assert [finding.find(tmp_path, job).name for job in ("101", "mnist-1")] == ["mnist-1", "mnist-1"]


@pytest.mark.parametrize("last", range(16))
def test_a_submission_that_is_killed_at_any_save_is_completed_and_no_job_is_submitted_twice(
    tmp_path: Path, last: int
) -> None:
    queue, seen = Queue(last_save=last), Seen()
    try:
        submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    except Killed:
        queue.last_save = 1000
        submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    runs, _ = finding.list_runs(tmp_path)  # one of which no job was submitted stays as it is
    assert (len(queue.jobs), ids(runs[-1])) == (3, ["100", "101", "102"])
    assert seen.results[-1][1] == "100"


def test_a_job_that_is_refused_can_be_submitted_later(tmp_path: Path, wording: Wording) -> None:
    queue, seen = Queue(), Seen()
    sbatch = queue.programs["sbatch"]
    queue.programs["sbatch"] = lambda command: failed(1, REFUSED) if queue.jobs else sbatch(command)
    with pytest.raises(SchedulerError) as error:
        submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    wording(str(error.value))
    [report] = job_states.status([only_run(tmp_path)], queue.services)
    assert (report.status.state, report.is_over) == (JobState.PENDING, False)
    queue.jobs["100"] = "COMPLETED"
    queue.programs["sbatch"] = sbatch
    submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    assert ids(only_run(tmp_path)) == ["100", "101", "102"]
    wording(seen.notes)


def test_a_job_whose_submission_got_no_answer_keeps_the_others_from_being_submitted(tmp_path: Path) -> None:
    queue, seen = Queue(), Seen()
    sbatch = queue.programs["sbatch"]
    queue.programs["sbatch"] = lambda command: TIMED_OUT if queue.jobs else sbatch(command)
    for _ in range(2):
        with pytest.raises(SubmissionUnknown):
            submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    assert (ids(only_run(tmp_path)), len(queue.jobs)) == (["100", None, None], 1)
    queue.time += job_states.GRACE
    queue.programs["sbatch"] = sbatch
    submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    assert ids(only_run(tmp_path)) == ["100", "101", "102"]


def test_a_run_lives_while_a_job_lives_and_an_end_counts_unless_a_later_job_went_on(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST, tmp_path, queue.services)
    queue.jobs = {"100": "PENDING", "101": "RUNNING", "102": "PENDING"}
    [report] = job_states.status([run], queue.services)
    assert (report.status.state, report.status.reason) == (JobState.RUNNING, "job 101")
    ends = [JobState.FAILED, JobState.COMPLETED, JobState.CANCELLED]
    ended = [
        queue.services.update(job, ended=Status(state, state.value, 0 if state is ends[1] else None))
        for job, state in zip(run.jobs, ends, strict=True)
    ]
    [report] = job_states.status([only_run(tmp_path)], queue.services)
    assert (report.status.state, report.status.reason) == (JobState.FAILED, "job 100")
    queue.services.update(ended[1], goes_on=True)
    [report] = job_states.status([only_run(tmp_path)], queue.services)
    assert (report.status.state, report.status.reason) == (JobState.CANCELLED, "job 102")


def test_jobs_that_follow_each_other_are_as_the_one_with_the_last_attempt(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST._replace(jobs=("", "", ""), followed=True), tmp_path, queue.services)
    events = run.directory.path / "events"
    assert only_run(tmp_path).is_followed
    queue.jobs = {"100": "TIMEOUT", "101": "RUNNING", "102": "PENDING"}
    events.write_text("started 100 100 0\nagain 100 200 timeout\nended 100 200 138\nstarted 101 210 0\n")
    [report] = job_states.status([run], queue.services)
    assert report.status.state is JobState.RUNNING
    with events.open("a") as log:
        log.write("over 101 300 completed\nended 101 300 0\n")
    queue.jobs = {"100": "TIMEOUT", "101": "COMPLETED", "102": "CANCELLED"}
    [report] = job_states.status([only_run(tmp_path)], queue.services)
    assert (report.status.state, report.status.exit_code) == (JobState.COMPLETED, 0)
    assert of_run(report.run, report.run.directory.events()) == "completed"
    found = attempts.read(report, 400)
    assert [(one.job, one.state, one.why) for one in found] == [
        ("100", "timeout", "timeout"),
        ("101", "completed", "completed"),
    ]


@pytest.mark.parametrize("jobs", [("", "", ""), ("1-2", "3-4", "5")])
def test_a_run_that_is_cancelled_while_its_jobs_are_submitted_gets_no_others(
    tmp_path: Path, jobs: Sequence[str]
) -> None:
    """The second job is cancelled, too, though `cancel` could not know of it."""
    queue, seen = Queue(), Seen()
    sbatch = queue.programs["sbatch"]

    def slow(command: Command) -> Completed:
        if queue.jobs:
            with contextlib.suppress(SchedulerError):  # whether there is a second job is unknown
                cancelling.cancel([only_run(tmp_path)], queue.services)
        return sbatch(command)

    queue.programs["sbatch"] = slow
    request = REQUEST._replace(jobs=tuple(jobs), followed=not jobs[0])
    run = submission.submit(request, tmp_path, queue.services, seen.screen)
    assert queue.jobs == {"100": "CANCELLED", "101": "CANCELLED"}
    assert seen.notes == ["mnist-1 was cancelled when it had 2 of 3 jobs"]
    assert ids(only_run(tmp_path)) == ["100", "101", *[None] * (jobs[0] != "")]
    [report] = job_states.status([only_run(tmp_path)], queue.services)
    assert report.jobs[1].status.state is JobState.CANCELLED
    queue.programs["sbatch"] = sbatch
    assert submission.submit(request, tmp_path, queue.services).name == "mnist-2"
    assert run.name == "mnist-1"


def test_a_run_that_the_batch_system_does_not_cancel_goes_on(tmp_path: Path, wording: Wording) -> None:
    queue = Queue()
    run = submission.submit(REQUEST, tmp_path, queue.services)
    queue.answers["scancel"] = failed(1, "scancel: error: Access denied\n")
    with pytest.raises(SchedulerError) as error:
        cancelling.cancel([run], queue.services)
    wording(str(error.value))
    assert not cancelling.is_cancelled(run.directory)
    del queue.answers["scancel"]
    queue.jobs = dict.fromkeys(queue.jobs, "RUNNING")
    assert cancelling.cancel([run], queue.services) == [run]
    assert cancelling.is_cancelled(run.directory)
    cancelling.withdraw(run.directory, attempts=True)
    assert not cancelling.is_cancelled(run.directory)


def test_a_follower_repeats_the_steps_in_which_the_job_of_the_last_attempt_was_lost(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST._replace(jobs=("", ""), followed=True), tmp_path, queue.services)
    events = run.directory.path / "events"
    events.write_text("started 100 100 0\nover 100 200 completed\nfinishing 100 200 0\n")
    queue.jobs = {"100": "NODE_FAIL", "101": "PENDING"}
    [report] = job_states.status([run], queue.services)
    assert report.status.state is JobState.PENDING
    with events.open("a") as log:
        log.write("started 101 310 0\nskipped 101 310 0\nfinishing 101 310 0\nended 101 320 0\n")
    queue.jobs = {"100": "NODE_FAIL", "101": "COMPLETED"}
    [report] = job_states.status([only_run(tmp_path)], queue.services)
    assert (report.status.state, report.status.exit_code) == (JobState.COMPLETED, 0)
    assert [(one.job, one.state, one.exit_code) for one in attempts.read(report, 400)] == [
        ("100", "completed", 0)
    ]


def test_a_follower_waits_for_all_jobs_before_it(tmp_path: Path) -> None:
    """Or the one behind a follower that was cancelled would begin beside the attempt that runs."""
    queue = Queue()
    submission.submit(REQUEST._replace(jobs=("", "", ""), followed=True), tmp_path, queue.services)
    words = [word for command in queue.shell.commands for word in command.argv if "--dependency" in word]
    assert words == ["--dependency=afterany:100", "--dependency=afterany:100:101"]


def test_a_training_that_completed_while_its_followers_were_submitted_is_not_begun_again(
    tmp_path: Path,
) -> None:
    queue, seen = Queue(), Seen()
    request = REQUEST._replace(jobs=("", "", ""), followed=True)
    run = submission.submit(request, tmp_path, queue.services, seen.screen)
    third = run.jobs[2]
    rundir.save(third.directory, replace(third.record, phase=Phase.CREATED, job_id=None, submitted_at=None))
    queue.services.update(run.jobs[1], ended=Status(JobState.CANCELLED, "CANCELLED"))
    queue.services.update(run.jobs[0], ended=Status(JobState.COMPLETED, "COMPLETED", 0))
    (run.directory.path / "events").write_text("started 100 100 0\nover 100 200 completed\nended 100 200 0\n")
    assert submission.submit(request, tmp_path, queue.services, seen.screen).name == "mnist-1"


def test_a_training_that_has_completed_has_whatever_its_job_met_afterwards(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST._replace(jobs=("", ""), followed=True), tmp_path, queue.services)
    queue.jobs = {"100": "NODE_FAIL", "101": "COMPLETED"}
    events = run.directory.path / "events"
    events.write_text("started 100 100 0\nover 100 200 completed\nstarted 101 210 0\nskipped 101 210 0\n")
    [report] = job_states.status([run], queue.services)
    assert (report.status.state, report.status.exit_code) == (JobState.COMPLETED, 0)


def test_a_component_that_ended_apart_is_named_after_a_training_that_completed(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST._replace(jobs=("",)), tmp_path, queue.services)
    queue.programs["squeue"] = lambda command: Completed(command, 0)
    queue.programs["sacct"] = lambda command: Completed(
        command, 0, "100+0|COMPLETED|0:0|None\n100+1|CANCELLED by 0|0:0|None\n"
    )
    (run.directory.path / "events").write_text("started 100 100 0\nover 100 200 completed\nended 100 200 0\n")
    [report] = job_states.status([run], queue.services)
    assert replace(report.status, source="") == Status(
        JobState.COMPLETED,
        "CANCELLED by 0",
        0,
        "its job was cancelled when the program had ended: component 0 COMPLETED, component 1 CANCELLED by 0",
    )


def test_an_accounting_that_has_one_component_alone_hides_no_other(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST._replace(jobs=("",)), tmp_path, queue.services)
    queue.programs["squeue"] = lambda command: Completed(
        command, 0, "100+0|FAILED|None|(null)\n100+1|CANCELLED|None|(null)\n"
    )
    queue.programs["sacct"] = lambda command: Completed(command, 0, "100|FAILED|15:0|None\n")
    [report] = job_states.status([run], queue.services)
    reason = "component 0 FAILED, component 1 CANCELLED"
    assert report.status == Status(JobState.FAILED, "FAILED", 15, reason, "sacct")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (["ended 100 210 3"], JobState.FAILED),
        (["finishing 100 200 0", "ended 100 210 3"], JobState.FAILED),
        (["finishing 100 200 0"], JobState.FAILED),
        (["finishing 100 200 0", "ended 100 210 0"], JobState.COMPLETED),
        (["finishing 100 200 0", "started 100 300 1", "skipped 100 300 0"], JobState.FAILED),
    ],
)
def test_a_step_after_the_training_that_did_not_end_well_is_the_end_of_its_job(
    tmp_path: Path, end: Sequence[str], state: JobState
) -> None:
    queue = Queue()
    run = submission.submit(REQUEST._replace(jobs=("",)), tmp_path, queue.services)
    queue.jobs = {"100": "FAILED"}
    events = ["started 100 100 0", "over 100 200 completed", *end, ""]
    (run.directory.path / "events").write_text("\n".join(events))
    [report] = job_states.status([run], queue.services)
    assert report.status.state is state


def test_a_follower_that_is_refused_is_left_out(tmp_path: Path) -> None:
    queue, seen = Queue(), Seen()
    sbatch = queue.programs["sbatch"]
    queue.programs["sbatch"] = lambda command: failed(1, REFUSED) if len(queue.jobs) == 2 else sbatch(command)
    request = REQUEST._replace(jobs=("", "", ""), followed=True)
    run = submission.submit(request, tmp_path, queue.services, seen.screen)
    assert (ids(run), ids(only_run(tmp_path))) == (["100", "101"], ["100", "101"])
    assert [note.partition(":")[0] for note in seen.notes] == [
        "mnist-1 has 2 of 3 jobs; the next was refused"
    ]


def test_cancel_ends_all_jobs_of_a_run(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST, tmp_path, queue.services)
    assert [each.name for each in cancelling.cancel([run], queue.services)] == ["mnist-1"]
    assert set(queue.jobs.values()) == {"CANCELLED"}


def test_an_element_is_known_by_its_trial(tmp_path: Path) -> None:
    queue = Queue()
    run = submission.submit(REQUEST, tmp_path, queue.services)
    (run.directory.path / "events").write_text(
        "started 101_3 100 0\nended 101_3 110 0\nstarted 101_4 100 0\nended 101_4 120 7\n"
    )
    queue.jobs = {"100": "PENDING", "102": "PENDING"}
    report = job_states.status([run], queue.services)[0].jobs[1]
    assert (report.status.state, report.status.exit_code, report.status.reason) == (
        JobState.FAILED,
        7,
        "first in element 4; 1 of 2 elements completed",
    )


@pytest.mark.parametrize(("numbers", "text"), [((), ""), ((3,), "3"), ((1, 2, 3, 7, 9, 10), "1-3,7,9-10")])
def test_numbers_are_written_as_ranges_and_found_by_their_places(numbers: tuple[int, ...], text: str) -> None:
    found = elements.numbers(text)
    assert (elements.text_of(numbers), [*found.outside(())]) == (text, [*numbers])
    assert [found.at(place) for place in range(len(numbers) + 2)] == [None, *numbers, None]
    assert [found.place(number) for number in (*numbers, 8)] == [*range(1, len(numbers) + 1), None]

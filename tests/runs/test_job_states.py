"""What is known of jobs that a batch system forgets, only half remembers, or that their user cancelled."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import SchedulerError, SubmissionUnknown
from hpcdist.runs import cancelling, finding, job_states, submission, waiting
from hpcdist.runs.job_states import QueryResults
from hpcdist.runs.rundir import Run
from hpcdist.schedulers import lsf
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.testing import TIMED_OUT, FakeShell, failed
from tests.plans import stored
from tests.runs.test_submission import FORGOTTEN, REQUEST, Queue, only_run, state_of, submitted
from tests.schedulers.flux_transcripts import recorded

GONE = Status(
    JobState.VANISHED,
    reason="the batch system no longer knows this job, and how it ended is unknown; it never started",
    source="batch system",
)


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def run(tmp_path: Path, queue: Queue) -> Run:
    return submission.submit(REQUEST, tmp_path, queue.services)


def test_an_unknown_job_vanishes_after_a_grace_period(tmp_path: Path, run: Run, queue: Queue) -> None:
    queue.jobs.clear()
    assert state_of(run, queue) == FORGOTTEN
    queue.time += 119
    assert state_of(only_run(tmp_path), queue) == FORGOTTEN
    queue.time += 2
    assert state_of(only_run(tmp_path), queue) == GONE
    queue.jobs["100"] = "RUNNING"
    assert state_of(only_run(tmp_path), queue).state is JobState.RUNNING
    queue.jobs.clear()
    assert state_of(only_run(tmp_path), queue) == FORGOTTEN


@pytest.mark.parametrize(
    ("steps", "state"),
    [("", JobState.FAILED), ("100.0|OUT_OF_MEMORY|0:125|\n", JobState.OUT_OF_MEMORY)],
    ids=["", "out of memory"],
)
def test_the_exit_code_is_the_whole_one_of_the_script(
    run: Run, queue: Queue, steps: str, state: JobState
) -> None:
    """Slurm shows 137 as 9:0."""
    (run.directory.path / "events").write_text("started 100 1700000000 0\nended 100 1700000009 137\n")
    queue.jobs["100"] = "FAILED"
    queue.accounting = f"100|FAILED|9:0|None\n{steps}"
    assert state_of(run, queue) == Status(state, "FAILED", 137, "", "sacct")


@pytest.mark.parametrize("others", [{}, {"777": "hpcdist:someone"}], ids=["nobody's", "another job's"])
def test_a_job_whose_id_was_told_wrong_is_found_by_its_token(
    tmp_path: Path, queue: Queue, others: Mapping[str, str]
) -> None:
    """As a wrapper of sbatch does that prints an id of its own."""
    queue.programs["sbatch"] = lambda command: queue.sbatch(command)._replace(stdout="777\n")
    run = submission.submit(REQUEST, tmp_path, queue.services)
    queue.tokens |= others
    queue.jobs |= dict.fromkeys(others, "RUNNING")
    assert (run.record.job_id, state_of(run, queue).state) == ("777", JobState.PENDING)
    assert only_run(tmp_path).record.job_id == "100"


@pytest.mark.parametrize(
    ("ahead", "lasted"),
    [
        pytest.param(7200, 0, id="the future"),
        pytest.param(-7200, 0, id="the past"),
        pytest.param(0, 0, id="equal clocks"),
        pytest.param(-7200, 90_000, id="a day later"),
    ],
)
def test_times_of_another_hosts_clock_count_from_now(
    tmp_path: Path, run: Run, queue: Queue, ahead: int, lasted: int
) -> None:
    queue.jobs.clear()
    elsewhere = queue.services._replace(now=lambda: queue.time + ahead, host="login2")
    assert [report.status for report in job_states.status([run], elsewhere)] == [FORGOTTEN]
    queue.time += lasted
    assert state_of(only_run(tmp_path), queue) == (GONE if lasted else FORGOTTEN)
    queue.time += 121
    assert state_of(only_run(tmp_path), queue) == GONE


@pytest.mark.parametrize("ahead", [7200, -7200])
def test_a_submission_on_a_host_with_another_clock_is_not_given_up_at_once(
    tmp_path: Path, queue: Queue, ahead: int
) -> None:
    elsewhere = queue.services._replace(now=lambda: queue.time + ahead, host="login2")
    queue.answers |= {"sbatch": TIMED_OUT, "squeue": failed(1)}
    with pytest.raises(SubmissionUnknown):
        submission.submit(REQUEST, tmp_path, elsewhere)
    queue.answers.clear()
    queue.jobs.clear()
    assert "check again in 180 s" in state_of(only_run(tmp_path), queue).reason
    queue.time += 200
    assert state_of(only_run(tmp_path), queue).state is JobState.UNSUBMITTED


def test_a_query_without_commands_is_no_reply() -> None:
    results = QueryResults([Job("100", "x", "/nowhere", "t")])
    results.run(Nothing(), FakeShell([]))
    assert results.replied is None
    assert results.status(Job("100", "x", "/nowhere", "t")) == Status(
        JobState.UNKNOWN, reason="the batch system did not answer"
    )


class Nothing:
    """A query that has no command for these jobs."""

    provisional = False
    one_by_one = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        del jobs
        return iter(())

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        raise AssertionError((completed, jobs))


@pytest.mark.parametrize(
    "said",
    [
        failed(1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
        failed(1, "sacct: error: Problem talking to the database: Connection refused"),
    ],
)
def test_a_job_does_not_vanish_while_one_of_those_asked_is_down(run: Run, queue: Queue, said: object) -> None:
    queue.jobs.clear()
    queue.answers["squeue" if "controller" in str(said) else "sacct"] = said  # type: ignore[assignment]
    for _ in range(5):
        queue.time += 1000
        assert state_of(run, queue).state is JobState.UNKNOWN


def test_wait_ends_when_a_job_has_vanished(run: Run, queue: Queue) -> None:
    queue.jobs.clear()
    (report,) = waiting.wait([run], queue.services)
    assert report.status == GONE
    assert 120 <= sum(queue.pauses) < 200


def test_wait_ends_where_the_record_cannot_be_written(run: Run, queue: Queue) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    queue.jobs.clear()
    (report,) = waiting.wait([run], queue.services._replace(save=refuse))
    assert report.status == GONE


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ("", Status(JobState.CANCELLED, "cancelled", None, "", "run directory")),
        ("started 100 1 0\n", Status(JobState.CANCELLED, "cancelled", None, "", "run directory")),
        (
            "started 100 1 0\nended 100 1800000000 143\n",
            Status(JobState.CANCELLED, "cancelled", 143, "", "run directory"),
        ),
        ("started 100 1 0\nended 100 2 7\n", Status(JobState.FAILED, "ended", 7, "", "run directory")),
    ],
)
def test_cancel_is_recorded(run: Run, queue: Queue, events: str, known: Status) -> None:
    cancelling.cancel([run], queue.services)
    with (run.directory.path / "events").open("a") as file:
        file.write(events)
    queue.jobs.clear()
    assert state_of(run, queue) == known


def test_a_refused_cancel_is_not_recorded(run: Run, queue: Queue) -> None:
    queue.answers["scancel"] = failed(1, "Access denied")
    with pytest.raises(SchedulerError):
        cancelling.cancel([run], queue.services)
    queue.jobs.clear()
    assert state_of(run, queue) == FORGOTTEN


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("started 100 1000 0\nended 100 4600 143\n", JobState.TIMEOUT),
        ("started 100 1000 0\nended 100 4545 137\n", JobState.TIMEOUT),
        ("started 100 1000 0\nended 100 4000 143\n", JobState.FAILED),
        ("started 100 1000 0\nended 100 4600 7\n", JobState.FAILED),
        ("started 100 1000 0\ntimeout 100 1010 0\nended 100 1012 143\n", JobState.TIMEOUT),
        ("timeout 100 990 0\nstarted 100 1000 1\nended 100 1012 143\n", JobState.FAILED),
    ],
)
def test_a_signal_at_the_time_limit_is_the_time_limit(
    run: Run, queue: Queue, events: str, state: JobState
) -> None:
    run.directory.write("plan.json", stored(None, walltime={"seconds": 3600}))
    run.directory.write("events", events)
    queue.jobs.clear()
    assert state_of(run, queue).state is state


DONE = (
    "JobId=10{0} ArrayJobId=100 ArrayTaskId={0} JobName=x\n"
    "   JobState=COMPLETED Reason=None\n   Requeue=1 ExitCode=0:0\n"
)


@pytest.mark.parametrize(
    ("ended", "known"),
    [
        (
            "ended 100_0 2 5\n",
            Status(
                JobState.FAILED, "ended", 5, "first in element 0; 2 of 3 elements completed", "run directory"
            ),
        ),
        ("ended 100_0 2 0\n", Status(JobState.COMPLETED, "ended", 0, "", "run directory")),
        ("", replace(FORGOTTEN, reason="the batch system no longer knows these elements: 0")),
    ],
)
def test_an_array_is_not_completed_because_its_failed_element_was_forgotten(
    run: Run, queue: Queue, ended: str, known: Status
) -> None:
    """MinJobAge is over for the first element, and there is no accounting."""
    run.directory.write("plan.json", stored("0-2"))
    run.directory.write("events", f"started 100_0 1 0\n{ended}")
    queue.jobs = {"100_1": "COMPLETED", "100_2": "COMPLETED"}
    queue.tokens |= dict.fromkeys(queue.jobs, queue.tokens["100"])
    queue.answers["sacct"] = failed(1, "Slurm accounting storage is disabled")
    queue.shown["100"] = DONE.format(1) + DONE.format(2)
    assert state_of(run, queue) == known


def test_an_array_of_which_an_element_is_lost_ends_as_the_others(run: Run, queue: Queue) -> None:
    run.directory.write("plan.json", stored("0-2"))
    queue.jobs.clear()
    queue.accounting = "100_1|FAILED|7:0|None\n100_2|COMPLETED|0:0|None\n"
    (report,) = waiting.wait([run], queue.services)
    reason = "first in element 1; 1 of 3 elements completed"
    assert report.status == Status(JobState.FAILED, "FAILED", 7, reason, "sacct")
    queue.accounting = "100_1|COMPLETED|0:0|None\n100_2|COMPLETED|0:0|None\n"
    (report,) = waiting.wait([run], queue.services)
    assert report.status.state is JobState.VANISHED


def test_an_array_one_element_of_which_was_deleted(run: Run, queue: Queue) -> None:
    run.directory.write("plan.json", stored("1-3"))
    queue.jobs.clear()
    queue.accounting = (
        "100_1|COMPLETED|0:0|None\n100_[2-2]|CANCELLED by 7|0:0|None\n100_3|COMPLETED|0:0|None\n"
    )
    reason = "first in element 2; 2 of 3 elements completed"
    assert state_of(run, queue) == Status(JobState.CANCELLED, "CANCELLED by 7", None, reason, "sacct")
    assert job_states.Report(run, state_of(run, queue)).is_over


def of_lsf(queue: Queue, tmp_path: Path, *stats: str) -> Status:
    """Return the state of an array on LSF whose elements bjobs has so, in any order; bhist is silent."""
    rows = [
        {"JOBID": "7", "JOBINDEX": str(index), "STAT": stat, "JOB_DESCRIPTION": "hpcdist:t0"}
        for index, stat in enumerate(stats, 1)
        if stat
    ]
    listed = {"RECORDS": rows}

    def answer(command: Command) -> Completed:
        is_query = lsf.COLUMNS in command.argv
        return Completed(
            command, 0, json.dumps(listed) if is_query else "Job <7> is submitted to queue <q>.\n"
        )

    silent = (("bhist",), lambda command: Completed(command, 0))
    queue.shell = FakeShell([(("bash",), answer), (("bsub",), answer), silent])
    run = submission.submit(REQUEST._replace(scheduler="lsf"), tmp_path, queue.services)
    run.directory.write("plan.json", stored(f"1-{len(stats)}"))
    found = set()
    for listed["RECORDS"] in (rows, rows[::-1]):
        found.add(state_of(run, queue))
    [status] = found
    return status


@pytest.mark.parametrize(
    ("stats", "state"),
    [
        (("RUN", "EXIT", "DONE"), JobState.RUNNING),
        (("DONE", "EXIT", "PEND"), JobState.PENDING),
        (("DONE", "EXIT", "DONE"), JobState.FAILED),
        (("EXIT", "DONE", "DONE"), JobState.FAILED),
        (("DONE", "DONE", "DONE"), JobState.COMPLETED),
        (("DONE", "", "DONE"), JobState.UNKNOWN),
        (("DONE", "DONE", "ZOMBI"), JobState.UNKNOWN),
        (("DONE", "", ""), JobState.UNKNOWN),
    ],
)
def test_an_array_of_lsf_is_what_its_elements_are(
    tmp_path: Path, queue: Queue, stats: tuple[str, ...], state: JobState
) -> None:
    assert of_lsf(queue, tmp_path, *stats).state is state


def test_a_hung_server_costs_a_minute_and_one_message(tmp_path: Path, queue: Queue) -> None:
    runs = submitted(queue, tmp_path, 3)

    def hang(command: Command) -> Completed:
        queue.time += command.timeout
        return Completed(command, 124, timed_out=True)

    before = queue.time
    reports = job_states.status(runs, queue.services._replace(runner=FakeShell([(lambda _: True, hang)])))
    assert queue.time == before + 60
    silence = Status(JobState.UNKNOWN, reason="the batch system did not answer within 60 s")
    assert [report.status for report in reports] == [silence] * 3


def test_a_run_of_an_unknown_scheduler_does_not_fail_the_others(tmp_path: Path, queue: Queue) -> None:
    odd, good = submitted(queue, tmp_path, 2)
    queue.services.update(odd, scheduler="cobalt")
    runs, errors = finding.list_runs(tmp_path)
    reports = job_states.status(runs, queue.services)
    assert [report.status for report in reports] == [state_of(good, queue)]
    assert [("unknown scheduler 'cobalt'" in str(error)) for error in errors] == [True]


def test_hung_schedulers_are_queried_in_parallel(tmp_path: Path, queue: Queue) -> None:
    """Each waits for the other to be asked too."""
    slurm, flux = submitted(queue, tmp_path, 2)
    flux = queue.services.update(flux, scheduler="flux")
    meeting = threading.Barrier(2)

    def hang(command: Command) -> Completed:
        meeting.wait(timeout=20)
        return Completed(command, 124, timed_out=True)

    services = queue.services._replace(runner=FakeShell([(lambda _: True, hang)]))
    limit = services._replace(now=iter([*[1.7e9] * 4, *[1.8e9] * 100]).__next__)
    assert [report.no_reply for report in job_states.status([slurm, flux], limit)] == [True, True]


LOST: Final = {
    "NODE_FAIL|0:0|NodeDown n1 n2": (JobState.NODE_FAIL, None, "NodeDown: n2 is down"),
    "NODE_FAIL|0:0|None n2": (JobState.NODE_FAIL, None, "n2 is down"),
    "NODE_FAIL|0:0|NodeDown n1": (JobState.NODE_FAIL, None, "NodeDown: n1 was lost"),
    "NODE_FAIL|0:0|NodeDown": (JobState.NODE_FAIL, None, "NodeDown"),
    "FAILED|143:0|None n2 n3": (JobState.FAILED, 143, "n2, n3 are down"),
    "FAILED|143:0|None n1": (JobState.FAILED, 143, ""),
    "FAILED|7:0|None n2 n3": (JobState.FAILED, 7, ""),
    "FAILED|205:0|None n1 n2": (JobState.FAILED, 205, "n2 is down"),
}
"""What sacct says and the nodes of the job; what is known then."""


@pytest.mark.parametrize("case", LOST)
def test_the_node_that_a_job_lost_is_named(run: Run, queue: Queue, case: str) -> None:
    said, *nodes = case.split()
    if nodes:
        (run.directory.path / "jobs" / "100").mkdir(parents=True)
        (run.directory.path / "jobs" / "100" / "nodes").write_text("".join(f"{node}\n" for node in nodes))
    queue.jobs.clear()
    queue.accounting = f"100|{said}\n"
    queue.programs["sinfo"] = lambda command: Completed(command, 0, "n1|idle\nn2|down*\nn3|down\nn4|down\n")
    queue.shell.rules = [*queue.shell.rules, (("sinfo",), queue.answer)]
    status = state_of(run, queue)
    assert (status.state, status.exit_code, status.reason) == LOST[case]
    assert only_run(run.directory.path.parent).record.ended == status
    is_sure = status.state is JobState.NODE_FAIL or status.exit_code == 205
    lost = ["n2"] if is_sure and "n2" in nodes else ["n1"] if "was lost" in status.reason else []
    assert [event.value for event in run.directory.events() if event.what == "lost"] == lost


def test_a_node_that_flux_names_is_recorded_as_lost(run: Run, queue: Queue) -> None:
    (done,) = (done for done in recorded("nodes.txt") if done.command.argv[-1] == "f9KEyhSco")
    (run.directory.path / "jobs" / "f9KEyhSco").mkdir(parents=True)
    (run.directory.path / "jobs" / "f9KEyhSco" / "nodes").write_text("n2\nn3\n")
    run = queue.services.update(run, scheduler="flux", job_id="f9KEyhSco")
    (report,) = job_states.status(
        [run], queue.services._replace(runner=FakeShell([(lambda _: True, done.stdout)]))
    )
    assert report.status.reason == "exec: node failure on n2 (rank 2)"
    assert [event.value for event in run.directory.events() if event.what == "lost"] == ["n2"]


WHOLE: Final = {
    ("F|271|91", "ended 7.head_0 2 143\n"): (JobState.CANCELLED, 143),
    ("F|0|92", "ended 7.head_0 2 5\n"): (JobState.FAILED, 5),
    ("F|0|92", "ended 7.head_0 2 0\n"): (JobState.COMPLETED, 0),
    ("F|7|93", "ended 7.head_0 2 7\n"): (JobState.FAILED, 7),
}
"""What PBS says of an array of one element, which is a plain job there, and what the job wrote."""


@pytest.mark.parametrize("case", WHOLE)
def test_the_state_of_an_array_explains_its_elements(run: Run, queue: Queue, case: tuple[str, str]) -> None:
    state, code, substate = case[0].split("|")
    run.directory.write("plan.json", stored("0"))
    run.directory.write("events", case[1])
    run = queue.services.update(run, scheduler="pbs", job_id="7.head")
    said = (
        f"Job Id: 7.head|job_state={state}|Exit_status={code}|substate={substate}|exec_host=n1/0|run_count=1"
    )
    shell = FakeShell([(lambda command: "-x" in command.argv, f"{said}\n"), (lambda _: True, "")])
    (report,) = job_states.status([run], queue.services._replace(runner=shell))
    assert (report.status.state, report.status.exit_code) == WHOLE[case]


@pytest.mark.parametrize(
    ("said", "ended", "end"),
    [
        ("", (0, 1), (JobState.VANISHED, None)),  # 2 may have been deleted while it waited
        ("", (0, 1, 2), (JobState.COMPLETED, 0)),
        ("012", (), (JobState.COMPLETED, 0)),
        ("01", (2,), (JobState.COMPLETED, 0)),
        ("01", (), (JobState.VANISHED, None)),
    ],
)
def test_an_array_of_pbs_has_completed_when_each_element_has(
    run: Run, queue: Queue, said: str, ended: Sequence[int], end: tuple[JobState, int | None]
) -> None:
    """The array itself ends with 0 also where an element was deleted while it waited."""
    run.directory.write("plan.json", stored("0-2"))
    run.directory.write("events", "".join(f"ended 7[].head_{index} 2 0\n" for index in ended))
    run = queue.services.update(run, scheduler="pbs", job_id="7[].head")
    well = "job_state=F|Exit_status=0|substate=92"
    array = f"Job Id: 7[].head|{well}|array=True\n"
    elements = "".join(f"Job Id: 7[{index}].head|{well}|exec_host=n1/0\n" for index in said)
    shell = FakeShell(
        [
            (lambda command: "-t" in command.argv, array + elements),
            (lambda command: "-x" in command.argv, array),
            (lambda _: True, ""),
        ]
    )
    (report,) = job_states.status([run], queue.services._replace(runner=shell))
    assert (report.status.state, report.status.exit_code) == end


@pytest.mark.parametrize(
    ("cancelled", "state"), [("", JobState.FAILED), ("cancelled 7.head 1 0\n", JobState.CANCELLED)]
)
def test_a_job_that_is_killed_after_its_user_cancelled_it_is_cancelled(
    run: Run, queue: Queue, cancelled: str, state: JobState
) -> None:
    """PBS calls a job failed that is deleted as it starts."""
    run.directory.write("events", cancelled)
    run = queue.services.update(run, scheduler="pbs", job_id="7.head")
    said = "Job Id: 7.head|job_state=F|Exit_status=265|substate=93|exec_host=n1/0|run_count=1\n"
    shell = FakeShell([(lambda command: "-x" in command.argv, said), (lambda _: True, "")])
    (report,) = job_states.status([run], queue.services._replace(runner=shell))
    assert (report.status.state, report.status.exit_code) == (state, 137)


@pytest.mark.parametrize(
    ("code", "log", "end"),
    [
        ("0", "", (JobState.VANISHED, None)),
        ("0", "started 7.head 1 0\nended 7.head 2 6\n", (JobState.FAILED, 6)),
        ("0", "started 7.head 1 0\nended 7.head 2 0\n", (JobState.COMPLETED, 0)),
        ("6", "", (JobState.FAILED, 6)),
    ],
)
def test_how_a_shell_of_pbs_ended_is_what_its_script_wrote(
    run: Run, queue: Queue, code: str, log: str, end: tuple[JobState, int | None]
) -> None:
    """PBS has 0 for a job of ``qsub -I``, whatever its shell returned."""
    run.directory.write("events", log)
    run = queue.services.update(run, scheduler="pbs", job_id="7.head")
    said = f"Job Id: 7.head|job_state=F|interactive=True|Exit_status={code}|exec_host=n1/0|run_count=1"
    shell = FakeShell([(lambda command: "-x" in command.argv, f"{said}\n"), (lambda _: True, "")])
    (report,) = job_states.status([run], queue.services._replace(runner=shell))
    assert (report.status.state, report.status.exit_code) == end
    kept = None if report.status.state is JobState.VANISHED else report.status
    assert only_run(run.directory.path.parent).record.ended == kept

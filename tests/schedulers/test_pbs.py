"""Answers are in ``tests/transcripts/pbs``, which says where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.command import Command, Completed
from hpcdist.errors import SchedulerError, SubmissionUnknown
from hpcdist.job import Job, JobState, Status
from hpcdist.schedulers import Submission
from hpcdist.schedulers.pbs import PBS
from hpcdist.schedulers.pbs.queries import Qstat, status
from hpcdist.testing import MISSING, TIMED_OUT, contract, failed

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts" / "pbs"
QSTAT = Command(("qstat",))


def job(job_id: str, token: str = "") -> Job:
    return Job(job_id, "mnist-1", "/runs/mnist-1", token)


def read(transcript: str, *jobs: Job) -> dict[str, Status]:
    return dict(Qstat().read(Completed(QSTAT, 0, (TRANSCRIPTS / transcript).read_text()), jobs))


@pytest.mark.parametrize("job_id", ["1234.pbs01", "1234[].pbs-01.hsn.cm.polaris.alcf.anl.gov"])
def test_contract(job_id: str) -> None:
    contract.commands_and_answers(PBS, f"Welcome!\n{job_id}\n", job_id)


def test_submit_command() -> None:
    command = PBS.submit(Submission("/runs/a-1/job.sh", "/runs/a-1", "12e4567890123456"))
    assert command.argv == ("qsub", "-v", "HPCDIST_TOKEN=hpcdist:12e4567890123456", "/runs/a-1/job.sh")
    assert command.drop_environment == ("PBS_DPREFIX", "HPCDIST_TOKEN")
    assert command.keep_environment == ("LC_ALL",)


@pytest.mark.parametrize(
    ("completed", "said"),
    [
        (MISSING, "there is no `qsub` on this machine; submit from a login node"),
        (failed(170, "qsub: Unknown queue"), "PBS refused the job: qsub: Unknown queue; `qstat -Q` lists"),
        (failed(187, "qsub: Unknown resource: ngpu"), "`pbs.gpus`"),
        (failed(159, "qsub: Unauthorized Request "), "set `batch.account`"),
        (failed(166, "qsub: Illegal attribute or resource value"), "compare the lines"),
        (failed(32, "qsub: Resource: filesystems is required to be set."), "-l filesystems=home:..."),
        (failed(32, "qsub: a hook of the site says no"), "a hook of the site says no"),
        (failed(38, "qsub: would exceed queue workq's per-user limit"), "a limit of yours"),
        (failed(1, "qsub: cannot connect to server pbs01 (errno=111)"), "try again later"),
        (failed(2, "qsub: illegal -N value"), "illegal -N value"),
        (failed(2, "qsub: illegal -k value"), "Torque, which hpcdist does not know"),
        (failed(2, "usage: qsub [-a date_time]"), "usage: qsub"),
        (
            failed(1, "Unable to initialize environment: unable to read qmaster name: act_qmaster"),
            "Grid Engine",
        ),
    ],
)
def test_certain_refusals(completed: Completed, said: str) -> None:
    with pytest.raises(SchedulerError) as error:
        PBS.read_submit(completed)
    assert not isinstance(error.value, SubmissionUnknown)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "completed",
    [
        TIMED_OUT,
        failed(-9),
        failed(0, "", "hello"),
        failed(0, "", "1234"),
        failed(1, "qsub: End of File"),
        failed(183, "qsub: Batch protocol error"),
        failed(163, "qsub: Internal server error"),
        failed(1, "Traceback (most recent call last): a wrapper of the site"),
        failed(1, "qsub: Unknown queue", "123.pbs01\n"),
        failed(1),
    ],
)
def test_answers_that_leave_doubt(completed: Completed) -> None:
    with pytest.raises(SubmissionUnknown):
        PBS.read_submit(completed)


def test_find() -> None:
    living, history = PBS.find()
    assert (living.argv[-1], history.argv[-1]) == ("", "-x")
    for command in (living, history):
        answer = (TRANSCRIPTS / "living.json").read_text()
        found = PBS.read_find(Completed(command, 0, answer))
        assert found == {"aaa": "1.pbs01", "bbb": "2.pbs01", "ccc": "3.pbs01"}


def test_one_question_for_all_and_then_one_by_one() -> None:
    jobs = [job("1.pbs01"), job("2[].pbs01")]
    first, past, each = PBS.queries()
    asked = [[command.argv[4:] for command in query.commands(jobs)] for query in (first, past, each)]
    json = ("-f", "-F", "json")
    assert asked == [
        [("qstat", *json, "1.pbs01", "2[].pbs01")],
        [("qstat", "-x", *json, "1.pbs01", "2[].pbs01")],
        [("qstat", "-x", *json, "1.pbs01"), ("qstat", "-x", *json, "2[].pbs01")],
    ]
    assert [(query.one_by_one, query.provisional) for query in (first, past, each)] == [
        (False, False),
        (False, False),
        (True, False),
    ]
    assert PBS.cancel(jobs).argv[4:] == ("qdel", "1.pbs01", "2[].pbs01")


def test_the_living() -> None:
    jobs = [job(f"{number}.pbs01") for number in range(1, 10)]
    never = "Can Never Run: Insufficient amount of resource: ngpus (R: 8 A: 4 T: 4)"
    assert read("living.json", *jobs) == {
        "1.pbs01": Status(JobState.RUNNING, "R", source="qstat"),
        "2.pbs01": Status(JobState.PENDING, "Q", None, never, "qstat"),
        "3.pbs01": Status(JobState.PENDING, "H", source="qstat"),
        "4.pbs01": Status(JobState.RUNNING, "E", source="qstat"),
        "5.pbs01": Status(JobState.SUSPENDED, "S", None, "Job preempted by suspension", "qstat"),
        "6.pbs01": Status(JobState.PENDING, "W", source="qstat"),
        "7.pbs01": Status(JobState.PENDING, "T", source="qstat"),
        "8.pbs01": Status(JobState.SUSPENDED, "U", source="qstat"),
    }


def test_the_past() -> None:
    jobs = [job(f"{number}.pbs01") for number in range(11, 21)]
    never = "it never ran: it was deleted, or what it waited for failed"
    dependency = "Job deleted as result of dependency on job 12.pbs01"
    memory = "it used more memory than it had asked for (Exit_status -27)"
    moved = "it was moved to another server: ask there"
    assert read("finished.json", *jobs) == {
        "11.pbs01": Status(JobState.COMPLETED, "F", 0, "", "qstat"),
        "12.pbs01": Status(JobState.FAILED, "F", 5, "", "qstat"),
        "13.pbs01": Status(JobState.CANCELLED, "F", 143, "killed by signal 15", "qstat"),
        "14.pbs01": Status(JobState.TIMEOUT, "F", None, "its walltime was over (Exit_status -29)", "qstat"),
        "15.pbs01": Status(JobState.CANCELLED, "F", None, never, "qstat"),
        "16.pbs01": Status(JobState.FAILED, "F", 137, "killed by signal 9", "qstat"),
        "17.pbs01": Status(JobState.CANCELLED, "F", 143, "", "qstat"),
        "18.pbs01": Status(JobState.OUT_OF_MEMORY, "F", None, memory, "qstat"),
        "19.pbs01": Status(JobState.UNKNOWN, "M", None, moved, "qstat"),
        "20.pbs01": Status(JobState.CANCELLED, "F", None, dependency, "qstat"),
    }


def test_arrays() -> None:
    assert read("array.json", *(job(f"{number}[].pbs") for number in (31, 32, 33))) == {
        "31[].pbs": Status(JobState.PENDING, "B", source="qstat"),
        "32[].pbs": Status(JobState.RUNNING, "B", source="qstat"),
        "33[].pbs": Status(JobState.FAILED, "F", 1, "", "qstat"),
    }


def test_an_answer_that_is_no_json() -> None:
    assert read("no_json.txt", job("4.scheduler", "aaa"), job("5.scheduler.example.org")) == {
        "4.scheduler": Status(JobState.RUNNING, "R", source="qstat"),
        "5.scheduler.example.org": Status(
            JobState.TIMEOUT, "F", None, "its walltime was over (Exit_status -29)", "qstat"
        ),
    }
    (command, _) = PBS.find()
    answer = (TRANSCRIPTS / "no_json.txt").read_text()
    assert PBS.read_find(Completed(command, 0, answer)) == {"aaa": "4.scheduler"}


def test_an_id_that_means_another_job_now() -> None:
    other = Status(JobState.UNKNOWN, reason="its id is that of another job now", source="qstat")
    assert read("living.json", job("1.pbs01", "zzz"), job("4.pbs01", "zzz")) == {
        "1.pbs01": other,
        "4.pbs01": Status(JobState.RUNNING, "E", source="qstat"),
    }


@pytest.mark.parametrize("code", range(-31, 0))
def test_every_reason_of_pbs_is_the_end_of_a_job(code: int) -> None:
    said = status({"job_state": "F", "Exit_status": code})
    assert said.state.is_final
    assert said.state is not JobState.COMPLETED
    assert said.reason.endswith(f"(Exit_status {code})")


def test_a_state_that_nobody_knows() -> None:
    assert status({"job_state": "C"}) == Status(JobState.UNKNOWN, "C", source="qstat")

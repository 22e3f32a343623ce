"""Answers are in ``tests/transcripts/pbs``, which says where they come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import SchedulerError, SubmissionUnknown
from hpcdist.schedulers.base import Submission
from hpcdist.schedulers.job import Job, JobState, Status, fold_array
from hpcdist.schedulers.pbs import PBS, PbsQstat, status
from hpcdist.testing import MISSING, TIMED_OUT, contract, failed
from tests.wording import Wording

from .plans import answer_id

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts" / "pbs"
QSTAT = Command(("qstat",))
QSUB = ("qsub", "-W", "block=false")


def job(job_id: str, token: str = "") -> Job:
    return Job(job_id, "mnist-1", "/runs/mnist-1", token)


def read(transcript: str, *jobs: Job) -> dict[str, Status]:
    return dict(PbsQstat().read(Completed(QSTAT, 0, (TRANSCRIPTS / transcript).read_text()), jobs))


@pytest.mark.parametrize("job_id", ["1234.pbs01", "1234[].pbs-01.hsn.cm.polaris.alcf.anl.gov"])
def test_contract(job_id: str) -> None:
    contract.commands_and_answers(PBS, f"Welcome!\n{job_id}\n", job_id)


def test_submit_command() -> None:
    command = PBS.submit(Submission("/runs/a-1/job.sh", "/runs/a-1", "12e4567890123456"))
    assert command.argv == (*QSUB, "-v", "HPCDIST_TOKEN=hpcdist:12e4567890123456", "/runs/a-1/job.sh")
    assert command.drop_environment == ("PBS_DPREFIX", "HPCDIST_TOKEN")
    assert command.keep_environment == ("LC_ALL",)


@pytest.mark.parametrize(
    "completed",
    [
        MISSING,
        failed(170, "qsub: Unknown queue"),
        failed(173, "qsub: Queue is not enabled"),
        failed(187, "qsub: Unknown resource: ngpu"),
        failed(159, "qsub: Unauthorized Request "),
        failed(166, "qsub: Illegal attribute or resource value"),
        failed(32, "qsub: Resource: filesystems is required to be set."),
        failed(32, "qsub: a hook of the site says no"),
        failed(38, "qsub: would exceed queue workq's per-user limit"),
        failed(162, "Connection refused\nqsub: cannot connect to server head (errno=15010)"),
        failed(2, "qsub: illegal -N value"),
        failed(2, "qsub: illegal -k value"),
        failed(2, "usage: qsub [-a date_time]"),
        failed(1, "Unable to initialize environment: unable to read qmaster name: act_qmaster"),
        failed(2, 'qsub: invalid option argument "-W"'),  # of a Grid Engine 8.1.9
    ],
    ids=answer_id,
)
def test_certain_refusals(completed: Completed, wording: Wording) -> None:
    with pytest.raises(SchedulerError) as error:
        PBS.read_submit(completed)
    assert not isinstance(error.value, SubmissionUnknown)
    wording(str(error.value))


@pytest.mark.parametrize(
    "completed",
    [
        TIMED_OUT,
        failed(-9),
        failed(0, "", "hello"),
        failed(0, "", "1234"),
        failed(0, "", "123.pbs01\n124.pbs01\n"),
        failed(1, "qsub: End of File"),
        failed(183, "qsub: Batch protocol error"),
        failed(163, "qsub: Internal server error"),
        failed(1, "Traceback (most recent call last): a wrapper of the site"),
        failed(1, "qsub: Unknown queue", "123.pbs01\n"),
        failed(1),
    ],
)
def test_ambiguous_submit_answers(completed: Completed) -> None:
    with pytest.raises(SubmissionUnknown):
        PBS.read_submit(completed)


def test_find() -> None:
    living, history = PBS.find()
    assert (living.argv[-1], history.argv[-1]) == ("", "-x")
    for command in (living, history):
        answer = (TRANSCRIPTS / "living.dsv").read_text()
        found = PBS.read_find(Completed(command, 0, answer))
        assert found == {"aaa": "1017.head", "bbb": "1019.head", "ccc": "1020.head"}


def test_one_query_for_all_jobs() -> None:
    jobs = [job("1.pbs01"), job("2[].pbs01")]
    first, past, arrays = PBS.queries()
    asked = [[command.argv[4:] for command in query.commands(jobs)] for query in (first, past, arrays)]
    dsv = ("-f", "-F", "dsv")
    assert asked == [
        [("qstat", *dsv, "1.pbs01", "2[].pbs01")],
        [("qstat", "-x", "-t", *dsv, "1.pbs01", "2[].pbs01")],
        [("qstat", "-x", *dsv, "2[].pbs01")],
    ]
    assert list(arrays.commands(jobs[:1])) == []
    assert PBS.cancel(jobs).argv[4:] == ("qdel", "1.pbs01", "2[].pbs01")
    assert PBS.cancel_element(jobs[1], 3).argv[4:] == ("qdel", "2[3].pbs01")


def test_unfinished_jobs() -> None:
    jobs = [job(f"{number}.head") for number in ("1009", *range(1017, 1022), "1022[]", "1023[]", "1024")]
    never = "Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 32 T: 32)"
    failing, stopped = "job held, too many failed attempts to run", "Not Running: Queue not started."
    suspended = "Job run at Sun Nov 22 at 18:46 on (n1:ncpus=1)"
    later = "it is to begin at Thu Dec 31 23:59:00 2026"
    assert read("living.dsv", *jobs) == {
        "1009.head": Status(JobState.PENDING, "H", None, failing, "qstat"),
        "1017.head": Status(JobState.RUNNING, "R", source="qstat"),
        "1018.head": Status(JobState.SUSPENDED, "S", None, suspended, "qstat"),
        "1019.head": Status(JobState.RUNNING, "R", source="qstat"),
        "1020.head": Status(JobState.PENDING, "H", None, "it waits for afterok:1017.head", "qstat"),
        "1021.head": Status(JobState.PENDING, "W", None, later, "qstat"),
        "1022[].head": Status(JobState.RUNNING, "B", source="qstat"),
        "1023[].head": Status(JobState.PENDING, "Q", None, stopped, "qstat"),
        "1024.head": Status(JobState.PENDING, "Q", None, never, "qstat"),
    }


def test_pending_job_has_a_reason() -> None:
    def waits(**fields: str) -> str:
        return status({"job_state": "H", **fields}).reason

    assert waits(depend="beforeok:9.head@head,afterok:1.head@head:2.head@head,afterany:3.head@head") == (
        "it waits for afterok:1.head:2.head,afterany:3.head"
    )
    assert waits(Hold_Types="u") == "it is held by its owner"
    assert waits(Hold_Types="s", depend="beforeok:9.head@head") == "it is held by the system"
    assert waits(Hold_Types="u", comment="Job held by hu1 on Sun Nov 22") == "Job held by hu1 on Sun Nov 22"
    assert waits() == ""


def over(*numbers: str) -> dict[str, Status]:
    jobs = [job(f"{number}.head") for number in numbers]
    found = PbsQstat(("-x", "-t")).read(Completed(QSTAT, 0, (TRANSCRIPTS / "over.dsv").read_text()), jobs)
    return {job_id.removesuffix(".head"): said for job_id, said in found.items()}


def test_finished_jobs() -> None:
    dependency = "it never ran: what it waited for cannot happen any more: afterok:1007.head"
    deleted = "it was deleted before it began (Not Running: Queue not started)"
    assert over("25", *map(str, range(1000, 1009)), "1015") == {
        "25": Status(JobState.CANCELLED, "F", 143, "killed by signal 15", "qstat"),
        "1000": Status(JobState.COMPLETED, "F", 0, "", "qstat"),
        "1001": Status(JobState.FAILED, "F", 37, "", "qstat"),
        "1002": Status(JobState.FAILED, "F", 139, "killed by signal 11", "qstat"),
        "1003": Status(JobState.TIMEOUT, "F", None, "its walltime was over (Exit_status -29)", "qstat"),
        "1004": Status(JobState.CANCELLED, "F", 143, "deleted by hu1@head", "qstat"),
        "1005": Status(JobState.CANCELLED, "F", 0, "deleted by hu1@head", "qstat"),
        "1006": Status(JobState.CANCELLED, "F", None, deleted, "qstat"),
        "1007": Status(JobState.FAILED, "F", 1, "", "qstat"),
        "1008": Status(JobState.CANCELLED, "F", None, dependency, "qstat"),
        "1015": Status(JobState.COMPLETED, "F", 0, "", "qstat"),
    }


def array(number: int) -> Status:
    """Return how an array ended, by its elements."""
    job_id = f"{number}[]"
    found = {name.removeprefix(f"{job_id}.head_"): said for name, said in over(job_id).items()}
    return fold_array({int(name): said for name, said in found.items() if name != job_id})


def test_an_array_ends_as_its_first_failed_element() -> None:
    """Its own Exit_status is that of the element that ended last: 0 of 1011[], whose first one failed."""
    numbers = (35, 1010, 1011, 1012, 1014, 1016)
    assert [(number, array(number).state.value, array(number).exit_code) for number in numbers] == [
        (35, "cancelled", 143),
        (1010, "failed", 7),
        (1011, "failed", 7),
        (1012, "failed", 7),
        (1014, "cancelled", 143),
        (1016, "cancelled", 143),
    ]
    assert over("1016[]") == {
        "1016[]": Status(JobState.CANCELLED, "F", None, "deleted", "qstat"),
        "1016[].head_0": Status(JobState.COMPLETED, "F", 0, "", "qstat"),
        "1016[].head_1": Status(JobState.CANCELLED, "F", 143, "deleted by hu1@head", "qstat"),
        "1016[].head_2": Status(JobState.COMPLETED, "F", 0, "", "qstat"),
    }


def test_an_array_alone_never_ends_well_when_an_element_did_not() -> None:
    text = (TRANSCRIPTS / "over.dsv").read_text()
    alone = "".join(line for line in text.splitlines(keepends=True) if "[]" in line[:20])
    jobs = [job(f"{number}[].head") for number in (1010, 1011, 1012, 1014, 1016)]
    found = PbsQstat(("-x",), arrays=True).read(Completed(QSTAT, 0, alone), jobs)
    assert [(said.state.value, said.exit_code) for said in found.values()] == [
        ("failed", 1),
        ("failed", None),
        ("failed", 1),
        ("cancelled", 1),
        ("cancelled", None),
    ]


def deleted(*numbers: str, elements: bool = True) -> dict[str, Status]:
    lines = (TRANSCRIPTS / "deleted.dsv").read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if elements or "[]" in line.partition("|")[0])
    query = PbsQstat(("-x", "-t")) if elements else PbsQstat(("-x",), arrays=True)
    return dict(query.read(Completed(QSTAT, 0, text), [job(f"{number}.head") for number in numbers]))


def test_an_array_does_not_say_that_an_element_was_deleted_while_it_waited() -> None:
    """It and the element end like those that completed, but for the host, which the element never had."""
    whole, *elements = deleted("15[]").values()
    assert [said.state.value for said in elements] == ["completed", "completed", "cancelled"]
    unknown = "PBS does not say how each of its elements ended"
    assert whole == Status(JobState.VANISHED, "F", None, unknown, "qstat")
    assert deleted("15[]", elements=False) == {"15[].head": whole}


def test_a_job_that_is_deleted_as_it_starts_is_killed_and_nothing_says_by_whom() -> None:
    killed = Status(JobState.FAILED, "F", 137, "killed by signal 9", "qstat")
    assert deleted("34") == {"34.head": killed}
    assert deleted("27[]")["27[].head_2"] == killed


def test_nodes_that_are_lost() -> None:
    asked = PBS.ask_nodes(("n1.example.org", "n2", "n9"))
    assert asked.argv == ("pbsnodes", "-F", "json", "n1", "n2", "n9")
    said = (TRANSCRIPTS / "nodes_down.json").read_text()
    assert PBS.read_nodes(Completed(asked, 0, said)) == ("n1",)
    full = said.replace('"Mom":\t"n1"', '"Mom":\t"n1.example.org"')
    assert PBS.read_nodes(Completed(asked, 0, full)) == ("n1", "n1.example.org")
    states = {"state-unknown,down": True, "down,offline": True, "down,job-busy": True, "offline": False}
    for state, is_lost in states.items():
        said_so = said.replace('"state":\t"down"', f'"state":\t"{state}"')
        assert PBS.read_nodes(Completed(asked, 0, said_so)) == (("n1",) if is_lost else ()), state
    assert PBS.read_nodes(Completed(asked, 1, "junk")) == ()


def test_truncated_answer_is_not_final() -> None:
    """A failed job without its last fields never ran; an array without its last elements ended well."""
    text = (TRANSCRIPTS / "over.dsv").read_text()
    half = text[: text.index("|Exit_status=37")]
    jobs = [job("1000.head"), job("1001.head")]
    assert set(PbsQstat(("-x",)).read(Completed(QSTAT, 0, half), jobs)) == {"1000.head"}
    assert PbsQstat(("-x", "-t")).read(TIMED_OUT._replace(stdout=text), [job("1010[].head")]) == {}


def test_variables_of_the_environment_are_not_fields() -> None:
    """The submitter of 1015 had a function of bash, a value of several lines and ``|`` in another."""
    text = (TRANSCRIPTS / "over.dsv").read_text()
    assert PBS.read_find(Completed(QSTAT, 0, text))["cccc"] == "1015.head"
    assert over("1015")["1015"].state is JobState.COMPLETED


def test_reused_job_id() -> None:
    other = Status(JobState.UNKNOWN, reason="its id now belongs to another job", source="qstat")
    assert read("living.dsv", job("1017.head.example.org", "zzz"), job("1024.head", "zzz")) == {
        "1017.head.example.org": other,
        "1024.head": read("living.dsv", job("1024.head"))["1024.head"],
    }


@pytest.mark.parametrize("code", range(-31, 0))
def test_every_reason_of_pbs_is_the_end_of_a_job(code: int) -> None:
    said = status({"job_state": "F", "Exit_status": str(code)})
    assert said.state.is_final
    assert said.state is not JobState.COMPLETED
    assert said.reason.endswith(f"(Exit_status {code})")


def test_unknown_state() -> None:
    assert status({"job_state": "C"}) == Status(JobState.UNKNOWN, "C", source="qstat")


def refusals() -> list[tuple[str, int, str]]:
    """Return what a real qsub refused: the request, its exit code, what it said."""
    text = (TRANSCRIPTS / "refusals.txt").read_text()
    found = re.findall(r"(?ms)^\$ (.*?)\n(.*?)^exit (\d+)$", text)
    return [(line, int(code), said) for line, said, code in found if code != "0"]


@pytest.mark.parametrize(("line", "code", "said"), refusals())
def test_recorded_qsub_refusals_are_certain(line: str, code: int, said: str) -> None:
    with pytest.raises(SchedulerError) as error:
        PBS.read_submit(failed(code, said))
    assert not isinstance(error.value, SubmissionUnknown), line


@pytest.mark.parametrize(
    ("used", "limit", "state"),
    [
        ("01:00:04", "01:00:00", JobState.TIMEOUT),
        ("100:00:00", "100:00:00", JobState.TIMEOUT),
        ("00:59:59", "01:00:00", JobState.CANCELLED),
        ("01:00:04", "", JobState.CANCELLED),
        ("", "01:00:00", JobState.CANCELLED),
    ],
)
def test_a_signal_at_the_walltime_is_the_walltime(used: str, limit: str, state: JobState) -> None:
    """TERM, 271, is what older PBS wrote for it."""
    record = {"job_state": "F", "substate": "93", "Exit_status": "271", "exec_host": "n1/0"}
    times = {"resources_used.walltime": used, "Resource_List.walltime": limit}
    found = status(record | {name: text for name, text in times.items() if text})
    assert (found.state, found.exit_code) == (state, 143)

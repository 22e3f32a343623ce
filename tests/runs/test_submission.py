"""The protocol of submission, with a batch system made of a few functions."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import OutputError, PlanError, SchedulerError, SubmissionUnknown
from hpcdist.runs import cancelling, finding, job_states, rundir, submission, waiting
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput, SubmitRequest
from hpcdist.schedulers.job import JobState, Status
from hpcdist.testing import MISSING, TIMED_OUT, FakeShell, failed
from tests.plans import stored
from tests.wording import Wording


class Killed(BaseException):
    """This process ends here."""


@dataclass
class Queue:
    """A Slurm that keeps its jobs in a dict; ``answers`` replaces what a program says."""

    jobs: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Completed] = field(default_factory=dict)
    accounting: str = ""
    shown: dict[str, str] = field(default_factory=dict)
    shell: FakeShell = field(init=False)
    time: float = 1_700_000_000
    pauses: list[float] = field(default_factory=list)
    saves: int = 0
    last_save: int = 1000
    failure: BaseException = field(default_factory=Killed)

    def __post_init__(self) -> None:
        programs: dict[str, Callable[[Command], Completed]] = {
            "sbatch": self.sbatch,
            "squeue": self.squeue,
            "sacct": lambda command: Completed(command, 0, self.accounting),
            "scontrol": self.scontrol,
            "scancel": self.scancel,
        }
        self.programs = programs
        self.shell = FakeShell([((name,), self.answer) for name in programs])

    def answer(self, command: Command) -> Completed:
        completed = self.programs[command.argv[0]](command)
        told = self.answers.get(command.argv[0])
        return completed if told is None else told._replace(command=command)

    def sbatch(self, command: Command) -> Completed:
        job_id = str(100 + len(self.tokens))
        (comment,) = (word for word in command.argv if word.startswith("--comment="))
        self.tokens[job_id] = comment.removeprefix("--comment=")
        self.jobs[job_id] = "PENDING"
        return Completed(command, 0, f"{job_id}\n")

    def squeue(self, command: Command) -> Completed:
        short = command.argv[-1] == "%i|%k"
        lines = (
            f"{job_id}|{self.tokens[job_id]}" if short else f"{job_id}|{state}|None|{self.tokens[job_id]}"
            for job_id, state in self.jobs.items()
        )
        return Completed(command, 0, "".join(f"{line}\n" for line in lines))

    def scontrol(self, command: Command) -> Completed:
        text = self.shown.get(command.argv[-1])
        return Completed(command, 0, text) if text else Completed(command, 1, "", "Invalid job id specified")

    def scancel(self, command: Command) -> Completed:
        for job_id in command.argv[1:]:
            self.jobs[job_id] = "CANCELLED"
        return Completed(command, 0)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds

    def save(self, directory: RunDirectory, record: Record) -> None:
        self.saves += 1
        if self.saves > self.last_save:
            raise self.failure
        rundir.save(directory, record)

    @property
    def services(self) -> Services:
        tokens = (f"t{number}" for number in itertools.count(self.saves))
        return Services(self.shell, lambda: self.time, self.sleep, lambda: next(tokens), self.save)


def files(directory: RunDirectory) -> Mapping[str, str]:
    return {"job.sh": f"#!/bin/bash\n# {directory.path}\n", "plan.json": "{}"}


REQUEST = SubmitRequest("mnist", "testbed", "slurm", "run: {cmd: train}\n", files)


SILENCE = Status(JobState.UNKNOWN, reason="the batch system did not answer: slurm is down")
FORGOTTEN = Status(
    JobState.UNKNOWN, reason="the batch system no longer knows this job", source="batch system"
)


def only_run(runs: Path) -> Run:
    (run,), errors = finding.list_runs(runs)
    assert errors == ()
    return run


def test_options_of_the_submission_are_those_of_the_stored_plan(tmp_path: Path) -> None:
    plan = '{"request": {"submit_options": ["-g", "tga-x"]}}'
    queue = Queue()
    queue.programs["qsub"] = lambda command: Completed(command, 0, "123\n")
    queue.shell = FakeShell([(("qsub",), queue.answer)])
    request = REQUEST._replace(scheduler="sge", files=lambda _: {"job.sh": "", "plan.json": plan})
    submission.submit(request, tmp_path, queue.services)
    assert [command.argv[-3:-1] for command in queue.shell.commands] == [("-g", "tga-x")]


@dataclass
class Seen:
    """What a user sees of a submission."""

    results: list[tuple[str, str | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def screen(self) -> SubmitOutput:
        return SubmitOutput(lambda run: self.results.append((run.name, run.record.job_id)), self.notes.append)


AGAIN = submission._AGAIN
LIVES = "the same experiment is pending as job 100, run mnist-1"
FINISHED = Seen(
    [("mnist-1", "100")],
    [f"{LIVES}; its submission was interrupted, and is completed now without another job; {AGAIN}"],
)


def repeated(runs: Path, queue: Queue) -> Seen:
    """Submit the experiment once more."""
    seen = Seen()
    submission.submit(REQUEST, runs, queue.services, seen.screen)
    return seen


def state_of(run: Run, queue: Queue) -> Status:
    (report,) = job_states.status([run], queue.services)
    return report.status


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_submit(tmp_path: Path, queue: Queue) -> None:
    seen = Seen()
    run = submission.submit(REQUEST, tmp_path, queue.services, seen.screen)
    directory = tmp_path / "mnist-1"
    assert run == only_run(tmp_path)
    assert (seen.results, seen.notes, run.directory.path) == ([("mnist-1", "100")], [], directory)
    assert run.record == Record(
        name="mnist",
        token="t0",  # noqa: S106 (it opens nothing)
        site="testbed",
        scheduler="slurm",
        digest=REQUEST.digest,
        created_at="2023-11-14T22:13:20+00:00",
        submitted_at="2023-11-14T22:13:20+00:00",
        clock=os.uname().nodename,
        phase=Phase.SUBMITTED,
        job_id="100",
    )
    assert queue.shell.commands[0].argv[-1] == str(directory / "job.sh")
    assert (directory / "experiment.yml").read_text() == REQUEST.experiment
    assert str(directory) in (directory / "job.sh").read_text()


def test_options_and_mark_identify_a_submission_and_text_that_looks_like_them_does_not() -> None:
    words = ("-p", "lr=1")
    text = f'{REQUEST.experiment}# submitted with ["-p", "lr=1"]\n'
    others = (
        REQUEST._replace(changes=words),
        REQUEST._replace(mark="a rehearsal"),
        REQUEST._replace(experiment=text),
    )
    assert len({request.digest for request in (REQUEST, *others)}) == 4


def test_a_run_may_begin_after_the_job_of_another_one(tmp_path: Path, queue: Queue) -> None:
    submission.submit(REQUEST._replace(after="99"), tmp_path, queue.services)
    submission.submit(REQUEST, tmp_path, queue.services)
    assert ["--dependency=afterany:99" in command.argv for command in queue.shell.commands] == [True, False]


def test_a_plan_that_fails_leaves_nothing(tmp_path: Path, queue: Queue) -> None:
    def broken(_: RunDirectory) -> Mapping[str, str]:
        raise PlanError("no")

    with pytest.raises(PlanError):
        submission.submit(SubmitRequest("mnist", "testbed", "slurm", "", broken), tmp_path, queue.services)
    assert [*tmp_path.iterdir()] == [tmp_path / f".submit-{os.getuid()}.lock"]
    assert queue.shell.commands == []


def test_the_script_is_submitted_where_its_code_is(tmp_path: Path, queue: Queue) -> None:
    def code(directory: RunDirectory) -> CodeResult:
        (directory.path / "code").mkdir()
        return CodeResult({"code.json": "{}"}, str(directory.path / "code"), ("a note",))

    notes: list[str] = []
    run = submission.submit(
        REQUEST._replace(code=code), tmp_path, queue.services, SubmitOutput(note=notes.append)
    )
    folder = f"{run.directory.path}/code"
    (command,) = queue.shell.commands
    assert (command.cwd, dict(command.environment)["PWD"], notes) == (folder, folder, ["a note"])
    assert (run.directory.path / "code.json").read_text() == "{}"
    submission.submit(REQUEST, tmp_path, queue.services)
    assert (queue.shell.commands[1].cwd, "PWD" in dict(queue.shell.commands[1].environment)) == ("", False)


@pytest.mark.parametrize("error", [PlanError("no"), OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_code_that_is_not_complete_leaves_no_run(tmp_path: Path, queue: Queue, error: BaseException) -> None:
    def code(directory: RunDirectory) -> CodeResult:
        (directory.path / "code").mkdir()
        (directory.path / "code" / "half").write_text("")
        raise error

    with pytest.raises(type(error)):
        submission.submit(REQUEST._replace(code=code), tmp_path, queue.services)
    assert [*tmp_path.iterdir()] == [tmp_path / f".submit-{os.getuid()}.lock"]
    assert queue.shell.commands == []


def test_an_interrupted_submission_keeps_the_code_that_it_has(tmp_path: Path, queue: Queue) -> None:
    made: list[str] = []

    def code(directory: RunDirectory) -> CodeResult:
        made.append(directory.name)
        return CodeResult({"code.json": str(len(made))}, str(directory.path))

    request = REQUEST._replace(code=code)
    queue.last_save = 2  # created, submitting; killed before the id is saved
    with pytest.raises(Killed):
        submission.submit(request, tmp_path, queue.services)
    queue.last_save = 1000
    run = submission.submit(request, tmp_path, queue.services)
    assert (run.name, made, len(queue.jobs)) == ("mnist-1", ["mnist-1"], 1)


def test_a_refusal_is_recorded_and_may_be_tried_again(tmp_path: Path, queue: Queue) -> None:
    queue.answers["sbatch"] = failed(
        1, "sbatch: error: Batch job submission failed: Invalid qos specification"
    )
    with pytest.raises(SchedulerError, match="Invalid qos"):
        submission.submit(REQUEST, tmp_path, queue.services)
    run = only_run(tmp_path)
    assert (run.record.phase, run.record.job_id) == ("refused", None)
    assert "Invalid qos" in run.record.message
    assert state_of(run, queue).state is JobState.UNSUBMITTED
    assert "Invalid qos" in state_of(run, queue).reason
    queue.answers.clear()
    assert submission.submit(REQUEST, tmp_path, queue.services).name == "mnist-2"


def test_no_sbatch_here(tmp_path: Path, queue: Queue, wording: Wording) -> None:
    queue.answers["sbatch"] = MISSING
    with pytest.raises(SchedulerError) as error:
        submission.submit(REQUEST, tmp_path, queue.services)
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    assert only_run(tmp_path).record.phase == "refused"


def test_a_lost_answer_is_found_by_the_token(tmp_path: Path, queue: Queue) -> None:
    queue.answers["sbatch"] = TIMED_OUT
    assert submission.submit(REQUEST, tmp_path, queue.services).record.job_id == "100"
    assert only_run(tmp_path).record.phase == "submitted"
    assert queue.shell.programs == ["sbatch", "squeue", "sacct"]
    assert queue.pauses == [0.5]


def test_a_lost_submission_is_never_repeated(tmp_path: Path, queue: Queue) -> None:
    queue.answers["sbatch"] = TIMED_OUT
    queue.answers["squeue"] = failed(1, "slurm_load_jobs error: Socket timed out on send/recv operation")
    with pytest.raises(SubmissionUnknown, match="hpcdist status mnist-1"):
        submission.submit(REQUEST, tmp_path, queue.services)
    assert queue.shell.programs.count("sbatch") == 1
    assert queue.pauses == sorted(queue.pauses)
    assert 5 < sum(queue.pauses) < 30
    run = only_run(tmp_path)
    assert (run.record.phase, run.record.job_id) == ("submitting", None)
    assert "within 120 s" in run.record.message
    assert state_of(run, queue).state is JobState.UNKNOWN
    with pytest.raises(SubmissionUnknown, match="mnist-1"):
        submission.submit(REQUEST, tmp_path, queue.services)
    assert queue.shell.programs.count("sbatch") == 1

    queue.answers.clear()
    assert state_of(run, queue) == Status(JobState.PENDING, "PENDING", source="squeue")
    assert only_run(tmp_path).record.job_id == "100"
    assert only_run(tmp_path).record.message == ""


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_the_next_submission_finishes_the_lost_one(tmp_path: Path, queue: Queue, looks: int) -> None:
    queue.answers |= {"sbatch": TIMED_OUT, "squeue": failed(1)}
    with pytest.raises(SubmissionUnknown):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.answers.clear()
    for _ in range(looks):
        assert state_of(only_run(tmp_path), queue).state is JobState.PENDING
        assert only_run(tmp_path).record.phase == "accepted"
    assert repeated(tmp_path, queue) == FINISHED
    assert only_run(tmp_path).record.phase == "submitted"
    assert queue.shell.programs.count("sbatch") == 1
    assert repeated(tmp_path, queue) == Seen([("mnist-2", "101")])


def test_again_submits_a_second_job(tmp_path: Path, queue: Queue) -> None:
    queue.answers |= {"sbatch": TIMED_OUT, "squeue": failed(1)}
    with pytest.raises(SubmissionUnknown):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.answers.clear()
    assert submission.submit(REQUEST, tmp_path, queue.services, again=True).record.job_id == "101"
    assert repeated(tmp_path, queue) == FINISHED


FULL = OSError(errno.ENOSPC, "No space left on device")


def test_an_id_that_cannot_be_printed_is_printed_by_the_next(
    tmp_path: Path, queue: Queue, wording: Wording
) -> None:
    def full(_: Run) -> None:
        raise FULL

    said = set()
    for _ in range(3):
        with pytest.raises(OutputError) as error:
            submission.submit(REQUEST, tmp_path, queue.services, SubmitOutput(full))
        said.add(str(error.value).replace(str(tmp_path), "TMP"))
        assert error.value.exit_code == 74
        assert (only_run(tmp_path).record.phase, only_run(tmp_path).record.job_id) == ("accepted", "100")
    wording(said)
    assert repeated(tmp_path, queue) == FINISHED
    assert list(queue.jobs) == ["100"]


@pytest.mark.parametrize("last_save", [2, 3])
def test_a_record_that_cannot_be_written_loses_no_job(tmp_path: Path, queue: Queue, last_save: int) -> None:
    queue.last_save, queue.failure = last_save, FULL
    seen = Seen()
    assert submission.submit(REQUEST, tmp_path, queue.services, seen.screen).record.job_id == "100"
    assert seen.results == [("mnist-1", "100")]
    assert [note.partition(": ")[2] for note in seen.notes] == [
        "No space left on device: the job id is not saved, but will be found again"
    ] * (last_save == 2)
    assert state_of(only_run(tmp_path), queue).state is JobState.PENDING
    queue.last_save = 1000
    assert repeated(tmp_path, queue) == FINISHED
    assert list(queue.jobs) == ["100"]


def test_a_full_disk_before_the_submission(tmp_path: Path, queue: Queue) -> None:
    queue.last_save, queue.failure = 0, FULL
    with pytest.raises(OSError, match="No space left"):
        submission.submit(REQUEST, tmp_path, queue.services)
    assert finding.list_runs(tmp_path) == ((), ())
    assert not (tmp_path / "mnist-1").exists()
    queue.last_save = 2
    with pytest.raises(OSError, match="No space left"):
        submission.submit(REQUEST, tmp_path, queue.services)
    assert queue.shell.programs == []


def test_a_refusal_that_cannot_be_recorded_is_still_raised(
    tmp_path: Path, queue: Queue, wording: Wording
) -> None:
    queue.answers["sbatch"] = failed(
        1, "sbatch: error: Batch job submission failed: Invalid qos specification"
    )
    queue.last_save, queue.failure = 2, FULL
    with pytest.raises(SchedulerError) as error:
        submission.submit(REQUEST, tmp_path, queue.services)
    wording(str(error.value))


@pytest.mark.parametrize(
    ("state", "later", "finished"),
    [
        ("COMPLETED", 0, True),
        ("FAILED", 0, True),
        ("CANCELLED", 0, False),
        ("COMPLETED", 1000, True),
        ("FAILED", 100_000, True),
        ("CANCELLED", 100_000, False),
        ("RUNNING", 100_000, True),
    ],
)
def test_an_interrupted_submission_whose_job_has_ended(
    tmp_path: Path, queue: Queue, state: str, later: float, *, finished: bool
) -> None:
    queue.last_save = 2
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.last_save = 1000
    queue.jobs["100"] = state
    queue.time += later
    said = f"run mnist-1 of the same experiment, whose submission was interrupted, is {state.lower()}"
    seen = repeated(tmp_path, queue)
    assert seen.results == ([("mnist-1", "100")] if finished else [("mnist-2", "101")])
    assert finished or seen.notes == [said]
    assert repeated(tmp_path, queue).notes == []


def test_a_later_submission_does_not_adopt_an_ended_job(tmp_path: Path, queue: Queue) -> None:
    queue.last_save = 2
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.last_save = 1000
    del queue.jobs["100"]
    queue.time += 1_000_000
    assert repeated(tmp_path, queue).results != [("mnist-1", "100")]


def test_a_submission_to_another_site_is_separate(tmp_path: Path, queue: Queue) -> None:
    queue.last_save = 2
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.last_save = 1000
    seen = Seen()
    submission.submit(REQUEST._replace(site="other"), tmp_path, queue.services, seen.screen)
    assert seen == Seen([("mnist-2", "101")])


def test_a_submission_with_a_future_time_is_resolved(tmp_path: Path, queue: Queue) -> None:
    queue.last_save = 1
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    (run,), _ = finding.list_runs(tmp_path)
    rundir.save(
        run.directory, replace(run.record, phase=Phase.SUBMITTING, submitted_at="2099-01-01T00:00:00+00:00")
    )
    queue.last_save = 1000
    assert "check again in 180 s" in state_of(only_run(tmp_path), queue).reason
    queue.time += 100
    assert "check again in 80 s" in state_of(only_run(tmp_path), queue).reason
    queue.time += 100
    assert state_of(only_run(tmp_path), queue).state is JobState.UNSUBMITTED


def test_status_does_not_undo_concurrent_updates(tmp_path: Path, queue: Queue) -> None:
    """`status` reads the record, asks for a while, and the submission ends in between."""
    queue.last_save = 2
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.last_save = 1000
    run = only_run(tmp_path)
    queue.services.update(run, phase=Phase.SUBMITTED, job_id="100")
    assert state_of(run, queue).state is JobState.PENDING
    assert only_run(tmp_path).record.phase == "submitted"


def test_a_phase_never_goes_back(tmp_path: Path, queue: Queue) -> None:
    """What `status` found out too late changes nothing, whatever it writes."""
    run = submission.submit(REQUEST, tmp_path, queue.services)
    for phase in (Phase.CREATED, Phase.SUBMITTING, Phase.REFUSED, Phase.ACCEPTED):
        late = queue.services.update(run, phase=phase, job_id="7", message="late")
        assert late == run == only_run(tmp_path)


def test_concurrent_updates_keep_each_other(tmp_path: Path, queue: Queue) -> None:
    """`submit` writes between the moment in which `status` reads the record and that in which it writes."""
    run = submission.submit(REQUEST, tmp_path, queue.services)
    rundir.save(run.directory, replace(run.record, phase=Phase.ACCEPTED))
    submit = threading.Thread(target=lambda: Services(queue.shell).update(run, phase=Phase.SUBMITTED))

    def save(directory: RunDirectory, record: Record) -> None:
        submit.start()
        submit.join(0.3)
        rundir.save(directory, record)

    Services(queue.shell, save=save).update(run, phase=Phase.ACCEPTED, message="")
    submit.join()
    assert only_run(tmp_path).record.phase is Phase.SUBMITTED


def test_a_submission_takes_two_minutes_at_most(tmp_path: Path, queue: Queue) -> None:
    submission.submit(REQUEST, tmp_path, queue.services)
    assert [command.timeout for command in queue.shell.commands] == [120]
    assert sum(submission._LOOKUP_PAUSES) + 120 < job_states.GRACE


def test_another_experiment_does_not_wait(tmp_path: Path, queue: Queue) -> None:
    queue.answers |= {"sbatch": TIMED_OUT, "squeue": failed(1)}
    with pytest.raises(SubmissionUnknown):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.answers.clear()
    other = SubmitRequest("other", "testbed", "slurm", "run: {cmd: other}\n", files)
    assert submission.submit(other, tmp_path, queue.services).record.job_id == "101"


@pytest.mark.parametrize(
    ("last_save", "phase", "sbatches"),
    [(0, None, 0), (1, "created", 0), (2, "submitting", 1), (3, "accepted", 1)],
)
def test_killed_before_a_record_is_written(
    tmp_path: Path, queue: Queue, last_save: int, phase: str | None, sbatches: int
) -> None:
    """Whatever step this process dies at, there is one job in the end."""
    queue.last_save = last_save
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    assert queue.shell.programs.count("sbatch") == sbatches
    assert [run.record.phase for run in finding.list_runs(tmp_path)[0]] == [phase] * (phase is not None)
    queue.last_save = 1000
    assert submission.submit(REQUEST, tmp_path, queue.services).record.job_id == "100"
    assert list(queue.jobs) == ["100"]


@pytest.mark.parametrize("arrived", [True, False])
def test_killed_while_sbatch_runs(tmp_path: Path, queue: Queue, *, arrived: bool) -> None:
    def die(command: Command) -> Completed:
        if arrived:
            queue.sbatch(command)
        raise Killed

    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, Services(FakeShell([(("sbatch",), die)]), lambda: queue.time))
    run = only_run(tmp_path)
    assert run.record.phase == "submitting"
    if arrived:
        assert state_of(run, queue).state is JobState.PENDING
        return
    assert state_of(run, queue).state is JobState.UNKNOWN  # another process may be about to submit it
    with pytest.raises(SubmissionUnknown, match="--again"):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.time += 1000
    assert state_of(run, queue) == Status(
        JobState.UNSUBMITTED,
        "submitting",
        reason="its submission got no answer, and the batch system has no such job",
        source="record",
    )
    assert [note.partition(":")[0] for note in repeated(tmp_path, queue).notes] == [
        "run mnist-1 of the same experiment is unsubmitted"
    ]


def test_ctrl_c_reports_the_job_that_may_exist(tmp_path: Path, queue: Queue) -> None:
    def interrupted(_: Command) -> Completed:
        raise KeyboardInterrupt

    shell = FakeShell([(("sbatch",), interrupted)])
    with pytest.raises(submission.Interrupted) as error:
        submission.submit(REQUEST, tmp_path, Services(shell, lambda: queue.time))
    assert error.value.run == only_run(tmp_path)
    assert error.value.run.record.phase == "submitting"


def test_a_killed_submission_gets_its_id_from_the_event_log(tmp_path: Path, queue: Queue) -> None:
    queue.last_save = 2
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    queue.last_save = 1000
    queue.jobs.clear()
    (tmp_path / "mnist-1" / "events").write_text("started 100_3 1700000000 0\n")
    assert state_of(only_run(tmp_path), queue).state is JobState.UNKNOWN
    assert only_run(tmp_path).record.job_id == "100"


def submitted(queue: Queue, runs: Path, count: int) -> list[Run]:
    return [submission.submit(REQUEST, runs, queue.services) for _ in range(count)]


def test_one_squeue_for_all(tmp_path: Path, queue: Queue) -> None:
    runs = submitted(queue, tmp_path, 20)
    del queue.shell.commands[:]
    reports = job_states.status(runs, queue.services)
    assert [report.status.state for report in reports] == [JobState.PENDING] * 20
    assert queue.shell.programs == ["squeue"]


def test_exit_codes_come_from_accounting_else_from_the_controller(tmp_path: Path, queue: Queue) -> None:
    runs = submitted(queue, tmp_path, 4)
    queue.jobs = {"100": "RUNNING", "101": "FAILED", "102": "FAILED"}
    queue.accounting = "101|FAILED|5:0|None\n103|COMPLETED|0:0|None\n"
    queue.shown["102"] = (
        "JobId=102 JobName=x\n   JobState=FAILED Reason=NonZeroExitCode\n   Requeue=1 ExitCode=6:0\n"
    )
    del queue.shell.commands[:]
    assert [report.status for report in job_states.status(runs, queue.services)] == [
        Status(JobState.RUNNING, "RUNNING", None, "", "squeue"),
        Status(JobState.FAILED, "FAILED", 5, "", "sacct"),
        Status(JobState.FAILED, "FAILED", 6, "NonZeroExitCode", "scontrol"),
        Status(JobState.COMPLETED, "COMPLETED", 0, "", "sacct"),
    ]
    assert queue.shell.programs == ["squeue", "sacct", "scontrol"]


def test_accounting_that_lags_does_not_revive_a_job(tmp_path: Path, queue: Queue) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.jobs["100"] = "FAILED"
    queue.accounting = "100|RUNNING|0:0|None\n"
    assert state_of(run, queue) == Status(JobState.FAILED, "FAILED", None, "", "squeue")


def test_no_answer_at_all_is_unknown(tmp_path: Path, queue: Queue) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.jobs.clear()
    assert state_of(run, queue).state is JobState.UNKNOWN
    queue.answers = dict.fromkeys(("squeue", "sacct", "scontrol"), failed(1, "slurm is down\n"))
    (run.directory.path / "events").write_text("started 100 1 0\nended 100 2 143\n")
    assert state_of(run, queue) == SILENCE


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ("started 100 1 0\nended 100 2 5\n", Status(JobState.FAILED, "ended", 5, "", "run directory")),
        ("started 100 1 0\nended 100 2 0\n", Status(JobState.COMPLETED, "ended", 0, "", "run directory")),
        ("started 100 1 0\nended 100 2 5\nstarted 100 3 1\n", None),
        ("started 100 1 0\n", None),
        ("started 100_0 1 0\nended 100_0 2 0\n", None),
        ("ended 99 2 0\n", None),
    ],
)
def test_the_event_log_is_used_if_slurm_has_forgotten(
    tmp_path: Path, queue: Queue, events: str, known: Status | None
) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.jobs.clear()
    (run.directory.path / "events").write_text(events)
    assert state_of(run, queue) == (known or FORGOTTEN)


def test_term_is_no_end_of_a_requeueable_job(tmp_path: Path, queue: Queue) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.jobs.clear()
    run.directory.write("plan.json", stored(None, requeue=True))
    run.directory.write("events", "started 100 1 0\nended 100 2 143\n")
    assert state_of(run, queue) == FORGOTTEN
    run.directory.write("events", "started 100 1 0\nended 100 2 5\n")
    assert state_of(run, queue) == Status(JobState.FAILED, "ended", 5, "", "run directory")


def _but_for_elements(status: Status) -> Status:
    lacks = status.reason.startswith("the batch system no longer knows these elements: ")
    return replace(status, reason=FORGOTTEN.reason) if lacks else status


FIRST = "first in element 1; {} of {} elements completed"


@pytest.mark.parametrize(
    ("array", "ends", "known"),
    [
        ("0-2", (0, 0, 0), Status(JobState.COMPLETED, "ended", 0, "", "run directory")),
        ("0-2%1", (0, 7, 3), Status(JobState.FAILED, "ended", 7, FIRST.format(1, 3), "run directory")),
        (
            "0-4:2,1",
            (0, 3, 7, None, 0),
            Status(JobState.FAILED, "ended", 3, FIRST.format(2, 4), "run directory"),
        ),
        ("1", (None, 5), Status(JobState.FAILED, "ended", 5, "", "run directory")),
        ("0-2", (0, None, 0), None),
        ("0-3", (0, 0, 0), None),
        (None, (0, 0, 0), None),
    ],
)
def test_an_array_has_ended_when_each_element_has(
    tmp_path: Path, queue: Queue, array: str | None, ends: tuple[int | None, ...], known: Status | None
) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.jobs.clear()
    run.directory.write("plan.json", stored(array))
    lines = [f"started 100_{number} 1 0\n" for number in range(len(ends))]
    lines += [f"ended 100_{number} 2 {code}\n" for number, code in enumerate(ends) if code is not None]
    run.directory.write("events", "".join(lines))
    assert _but_for_elements(state_of(run, queue)) == (known or FORGOTTEN)


def test_an_element_that_began_again_has_not_ended(tmp_path: Path, queue: Queue) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.jobs.clear()
    run.directory.write("plan.json", stored("0-1", requeue=True))
    both = "started 100_0 1 0\nended 100_0 2 0\nstarted 100_1 1 0\nended 100_1 2 143\n"
    run.directory.write("events", both)
    assert _but_for_elements(state_of(run, queue)) == FORGOTTEN
    run.directory.write("events", f"{both}started 100_1 3 1\n")
    assert _but_for_elements(state_of(run, queue)) == FORGOTTEN
    run.directory.write("events", f"{both}started 100_1 3 1\nended 100_1 4 0\n")
    assert state_of(run, queue) == Status(JobState.COMPLETED, "ended", 0, "", "run directory")


@pytest.mark.parametrize("listed", [True, False])
def test_an_end_is_queried_once(tmp_path: Path, queue: Queue, *, listed: bool) -> None:
    runs = submitted(queue, tmp_path, 30)
    queue.jobs = dict.fromkeys(queue.jobs, "FAILED") if listed else {}
    for run in runs:
        run.directory.write("events", f"ended {run.record.job_id} 2 5\n")
    del queue.shell.commands[:]
    expected = (
        Status(JobState.FAILED, "FAILED", 5, "", "squeue")
        if listed
        else Status(JobState.FAILED, "ended", 5, "", "run directory")
    )
    reports = job_states.status(finding.list_runs(tmp_path)[0], queue.services)
    assert [report.status for report in reports] == [expected] * 30
    assert queue.shell.programs == ["squeue", "sacct"]
    again = job_states.status(finding.list_runs(tmp_path)[0], queue.services)
    assert again == reports
    assert queue.shell.programs == ["squeue", "sacct"]


def test_no_end_is_recorded_without_an_answer_of_the_queue(tmp_path: Path, queue: Queue) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.answers["squeue"] = failed(1, "slurm is down")
    queue.accounting = "100|PREEMPTED|0:0|None\n"
    assert state_of(run, queue).state is JobState.PREEMPTED
    assert only_run(tmp_path).record.ended is None
    queue.answers.clear()
    assert state_of(run, queue).state is JobState.PENDING


def test_a_reused_id_is_recognised(tmp_path: Path, queue: Queue) -> None:
    (old,) = submitted(queue, tmp_path, 1)
    queue.tokens.clear()
    new = submission.submit(REQUEST, tmp_path, queue.services)
    assert (old.record.job_id, new.record.job_id) == ("100", "100")
    assert [report.status.state for report in job_states.status([old, new], queue.services)] == [
        JobState.UNKNOWN,
        JobState.PENDING,
    ]


def test_the_states_of_all_runs(tmp_path: Path, queue: Queue) -> None:
    submitted(queue, tmp_path, 2)
    (tmp_path / "mnist-2" / "record.json").write_text("{")
    runs, errors = finding.list_runs(tmp_path)
    reports = job_states.status(runs, queue.services)
    assert [report.run.name for report in reports] == ["mnist-1"]
    assert len(errors) == 1


def test_cancel(tmp_path: Path, queue: Queue, wording: Wording) -> None:
    runs = submitted(queue, tmp_path, 2)
    assert cancelling.cancel(runs, queue.services) == runs
    assert queue.shell.commands[-1].argv == ("scancel", "100", "101")
    queue.jobs = dict.fromkeys(queue.jobs, "RUNNING")
    queue.answers["scancel"] = failed(1, "scancel: error: Access denied\n")
    with pytest.raises(SchedulerError) as error:
        cancelling.cancel(runs, queue.services)
    wording(str(error.value))


def test_cancel_reports_all_problems(tmp_path: Path, queue: Queue, wording: Wording) -> None:
    alive, lost = submitted(queue, tmp_path, 2)
    lost = lost._replace(record=replace(lost.record, phase=Phase.SUBMITTING, job_id=None))
    rundir.save(lost.directory, lost.record)
    del queue.jobs["101"]
    queue.answers["scancel"] = failed(1, "scancel: error: Access denied\n")
    with pytest.raises(SchedulerError) as caught:
        cancelling.cancel([alive, lost], queue.services)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def test_cancel_affects_only_live_jobs_with_the_token(tmp_path: Path, queue: Queue, wording: Wording) -> None:
    over, other, mine = submitted(queue, tmp_path, 3)
    queue.jobs |= {"100": "COMPLETED", "101": "RUNNING", "102": "RUNNING"}
    queue.tokens["101"] = "hpcdist:another"
    queue.accounting = "101|RUNNING|0:0|None\n"
    cancelling.cancel([over, other], queue.services)
    assert "scancel" not in queue.shell.programs
    cancelling.cancel([over, other, mine], queue.services)
    assert queue.shell.commands[-1].argv == ("scancel", "102")
    queue.answers = dict.fromkeys(("squeue", "sacct", "scontrol"), failed(1, "slurm is down\n"))
    with pytest.raises(SchedulerError) as caught:
        cancelling.cancel([mine], queue.services)
    wording(str(caught.value))


def test_cancel_of_a_job_that_is_not_listed_yet(tmp_path: Path, queue: Queue) -> None:
    """The order is given all the same; one for those that are listed does not fail with it."""
    listed, missing = submitted(queue, tmp_path, 2)
    del queue.jobs["101"]
    ended = cancelling.cancel([listed, missing], queue.services)
    assert [run.record.job_id for run in ended] == ["100", "101"]
    ends = [command.argv for command in queue.shell.commands if command.argv[0] == "scancel"]
    assert ends == [("scancel", "100"), ("scancel", "101")]


def test_cancel_of_an_unknown_job(tmp_path: Path, queue: Queue, wording: Wording) -> None:
    """Its state is unknown at first; once it has vanished, there is nothing to cancel."""
    (missing,) = submitted(queue, tmp_path, 1)
    queue.jobs.clear()
    queue.answers["scancel"] = failed(1, "scancel: error: Invalid job id specified\n")
    with pytest.raises(SchedulerError) as caught:
        cancelling.cancel([missing], queue.services)
    wording(str(caught.value))
    queue.time += 200
    assert cancelling.cancel([only_run(tmp_path)], queue.services) == []


def test_cancel_finds_the_job_of_a_lost_submission(tmp_path: Path, queue: Queue, wording: Wording) -> None:
    queue.answers |= {"sbatch": TIMED_OUT, "squeue": failed(1)}
    with pytest.raises(SubmissionUnknown):
        submission.submit(REQUEST, tmp_path, queue.services)
    run = only_run(tmp_path)
    with pytest.raises(SchedulerError) as caught:
        cancelling.cancel([run], queue.services)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))
    queue.answers.clear()
    (cancelled,) = cancelling.cancel([run], queue.services)
    assert (cancelled.record.job_id, queue.jobs["100"]) == ("100", "CANCELLED")


def test_wait(tmp_path: Path, queue: Queue) -> None:
    runs = submitted(queue, tmp_path, 2)
    seen: list[tuple[str, JobState]] = []
    end = queue.time + 4.5  # and the pauses are of a second each

    def sleep(seconds: float) -> None:
        queue.sleep(seconds)
        queue.jobs["100"] = queue.jobs["101"] = word = "RUNNING" if queue.time < end else "COMPLETED"
        if word == "COMPLETED":
            queue.accounting = "100|COMPLETED|0:0|None\n101|COMPLETED|0:0|None\n"

    def told(report: job_states.Report) -> None:
        seen.append((report.run.name, report.status.state))

    services = Services(queue.shell, lambda: queue.time, sleep)
    reports = waiting.wait(runs, services, on_change=told)
    assert [report.status.exit_code for report in reports] == [0, 0]
    assert seen == [
        (name, state)
        for state in (JobState.PENDING, JobState.RUNNING, JobState.COMPLETED)
        for name in ("mnist-1", "mnist-2")
    ]
    assert sum(queue.pauses) == pytest.approx(5)
    assert queue.shell.programs.count("squeue") == 6


def test_wait_gives_up_on_a_batch_system_that_is_silent_for_long(tmp_path: Path, queue: Queue) -> None:
    (run,) = submitted(queue, tmp_path, 1)
    queue.answers = dict.fromkeys(("squeue", "sacct", "scontrol"), failed(1, "slurm is down\n"))
    (report,) = waiting.wait([run], queue.services)
    assert report.status == SILENCE
    assert 900 < sum(queue.pauses) < 1000
    assert queue.shell.programs.count("squeue") < 60


def test_wait_for_what_was_never_submitted(tmp_path: Path, queue: Queue) -> None:
    queue.last_save = 1
    with pytest.raises(Killed):
        submission.submit(REQUEST, tmp_path, queue.services)
    (report,) = waiting.wait([only_run(tmp_path)], queue.services)
    assert report.status.state is JobState.UNSUBMITTED
    assert queue.pauses == []

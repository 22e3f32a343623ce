"""What every scheduler must keep, as functions that raise ``AssertionError``.

A plug-in's test is one call: ``contract.check(MY_SCHEDULER, answer="1234.pbs01", job_id="1234.pbs01")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.command import Command, Completed
from hpcdist.errors import HpcdistError, SchedulerError, SubmissionUnknown
from hpcdist.job import Job
from hpcdist.schedulers import Scheduler, Submission
from hpcdist.testing import MISSING, TIMED_OUT

SUBMISSION: Final = Submission("/runs/with space-1/job.sh", "/runs/with space-1", "0123456789abcdef")

JUNK: Final = (
    "",
    "\n",
    "|||||\n",
    "a|b|c|d\n",
    "error: connection refused\n",
    "\x00\x1b[31mfoo\x7f\n",
    "{}\n",
    "JobState=\n JobState= Reason=\n",
    "99999999999999999999\n",
    "²|RUNNING|x|y\n",
    "x" * 100_000,
)
"""Answers that say nothing; banners of login nodes look like some of them."""


def check(scheduler: Scheduler, *, answer: str, job_id: str) -> None:
    """Check all of it; ``answer`` is what the submit command prints for the job ``job_id``."""
    job = Job(job_id, "mnist-1", SUBMISSION.directory, SUBMISSION.token)
    submission_is_said_in_full(scheduler)
    ids_come_back(scheduler, answer, job_id)
    doubt_is_told_from_refusal(scheduler)
    junk_is_silence(scheduler, job)
    commands_are_words(scheduler, job)


def submission_is_said_in_full(scheduler: Scheduler) -> None:
    """The script is one word of the command, and the token is where the job can be found by it."""
    command = scheduler.submit(SUBMISSION)
    _hold(SUBMISSION.script in command.argv, f"the script is no word of {command}")
    said = " ".join([*command.argv, *(value for _, value in command.environment)])
    _hold(SUBMISSION.token in said, f"the token is not in {command}")


def ids_come_back(scheduler: Scheduler, answer: str, job_id: str) -> None:
    """The answer of the submit command is read as the id."""
    read = scheduler.read_submit(Completed(scheduler.submit(SUBMISSION), 0, answer))
    _hold(read == job_id, f"{answer!r} was read as {read!r}, not {job_id!r}")


def doubt_is_told_from_refusal(scheduler: Scheduler) -> None:
    """A missing program is a certain no; a timeout, a killed program and an unreadable yes are doubt."""
    command = scheduler.submit(SUBMISSION)
    doubtful = (TIMED_OUT, Completed(command, -9), Completed(command, 0, "hello\n"))
    for completed in doubtful:
        error = _error(scheduler, completed._replace(command=command))
        _hold(isinstance(error, SubmissionUnknown), f"{error!r} of {completed} is no doubt")
    refusal = _error(scheduler, MISSING._replace(command=command))
    certain = isinstance(refusal, SchedulerError) and not isinstance(refusal, SubmissionUnknown)
    _hold(certain, f"{refusal!r} of a missing program is no refusal")


def junk_is_silence(scheduler: Scheduler, job: Job) -> None:
    """Junk gives no state, no token and no error but hpcdist's own."""
    for text in JUNK:
        for command in scheduler.find():
            for completed in _answers(command, text):
                tokens = scheduler.read_find(completed)
                _hold(not tokens, f"find read {tokens} out of {text[:80]!r}")
        for query in scheduler.queries():
            for command in query.commands([job]):
                for completed in _answers(command, text):
                    states = query.read(completed, [job])
                    _hold(not states, f"{command} read {states} out of {text[:80]!r}")


def commands_are_words(scheduler: Scheduler, job: Job) -> None:
    """No command is empty, and none holds a NUL byte, which no process can take."""
    queries = (command for query in scheduler.queries() for command in query.commands([job]))
    for command in (*queries, *scheduler.find(), scheduler.cancel([job]), scheduler.submit(SUBMISSION)):
        _hold(bool(command.argv) and not any("\0" in word for word in command.argv), f"cannot run {command}")


def _answers(command: Command, text: str) -> Iterator[Completed]:
    yield Completed(command, 0, text)
    yield Completed(command, 1, text, text)
    yield Completed(command, -15, "", text)


def _error(scheduler: Scheduler, completed: Completed) -> HpcdistError | None:
    try:
        scheduler.read_submit(completed)
    except HpcdistError as error:
        return error
    return None


def _hold(condition: bool, otherwise: str) -> None:  # noqa: FBT001 (the subject of an assertion)
    if not condition:
        raise AssertionError(otherwise)

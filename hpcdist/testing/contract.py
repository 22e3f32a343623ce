"""What every scheduler must keep, as functions that raise ``AssertionError``.

A plug-in's test is one call, with the native words of each of its queries::

    contract.check(MY_SCHEDULER, answer="1234.pbs01", job_id="1234.pbs01", natives=(QSTAT, HISTORY))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from hpcdist.errors import HpcdistError, PlanError, SchedulerError, SubmissionUnknown, dotted
from hpcdist.host.command import Command, Completed
from hpcdist.plan.model import Plan
from hpcdist.schedulers import Query, Scheduler, Submission
from hpcdist.schedulers.installations import Installation
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.site.model import Site
from hpcdist.testing import MISSING, TIMED_OUT
from hpcdist.testing.wishes import PLAIN, Wish, wishes

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


class Natives(NamedTuple):
    """What one query says: the batch system's words, and the answer in which one of them stands.

    A word may have more behind it that ``answer`` needs (``F -29``); the status must keep a part of it.
    ``unknown``: a word that the batch system does not have, None where an answer has no place for one.
    """

    words: Mapping[str, JobState]
    answer: Callable[[Job, str], str]
    unknown: str | None = "BROODING"


def check(  # noqa: PLR0913 (all by name)
    scheduler: Scheduler,
    *,
    answer: str,
    job_id: str,
    natives: Sequence[Natives],
    site: Site | None = None,
    harmless: Mapping[str, str] | None = None,
) -> None:
    """Check all of it; ``answer`` is what the submit command prints for the job ``job_id``.

    ``natives``: one for each query of the scheduler. ``site``: a machine that names all that the scheduler
    can ask for. ``harmless``: fields of an experiment that the scheduler leaves out in silence, and why
    that does no harm.
    """
    installation_can_be_looked_for(scheduler)
    commands_and_answers(scheduler, answer, job_id)
    job = Job(job_id, "mnist-1", SUBMISSION.directory, SUBMISSION.token)
    states_have_meanings(scheduler, job, natives)
    machine = site or Site(
        name="anywhere", description="a machine", scheduler=scheduler.name, launcher="mpirun"
    )
    wishes_are_said_or_refused(scheduler, machine, job, harmless or {})


def commands_and_answers(scheduler: Scheduler, answer: str, job_id: str) -> None:
    """Check the commands and how their answers are read; ``answer`` is one that the submit command gives."""
    job = Job(job_id, "mnist-1", SUBMISSION.directory, SUBMISSION.token)
    submission_is_said_in_full(scheduler)
    ids_come_back(scheduler, answer, job_id)
    doubt_is_told_from_refusal(scheduler)
    junk_is_silence(scheduler, job)
    commands_are_words(scheduler, job)


def installation_can_be_looked_for(scheduler: Scheduler) -> None:
    """How it is known to be set up is None, or names a command, and a variable, a file or a question."""
    known = scheduler.installation
    if known is None:
        return
    _hold(isinstance(known, Installation), f"{known!r} is no Installation")
    _hold(scheduler.is_batch_system, f"{scheduler.name} has an installation, and is no batch system")
    _hold(bool(known.title and known.command), f"{known} lacks its title or its command")
    enough = known.variable or known.files or known.question
    _hold(bool(enough), f"nothing but {known.command} shows that {known.title} is set up")
    _hold(known.question is None or bool(known.denials), f"no answer to {known.question} denies it")


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


def states_have_meanings(scheduler: Scheduler, job: Job, natives: Sequence[Natives]) -> None:
    """Every native word means its state, an unknown one is ``UNKNOWN``, and both are kept."""
    queries = scheduler.queries()
    _hold(len(natives) == len(queries), f"{len(queries)} queries, and the words of {len(natives)}")
    for query, native in zip(queries, natives, strict=True):
        for word, state in native.words.items():
            _means(query, job, native, word, state)
        if native.unknown is not None:
            _means(query, job, native, native.unknown, JobState.UNKNOWN)
    missing = _ESSENTIAL - {state for native in natives for state in native.words.values()}
    _hold(not missing, f"no word means {', '.join(sorted(state.value for state in missing))}")


_ESSENTIAL: Final = frozenset({JobState.RUNNING, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


def _means(query: Query, job: Job, native: Natives, word: str, state: JobState) -> None:
    command = next(iter(query.commands([job])))
    read = query.read(Completed(command, 0, native.answer(job, word)), [job]).get(
        job.id, Status(JobState.UNSUBMITTED)
    )
    _hold(read.state is state, f"{word!r} was read as {read.state.value}, not {state.value}")
    _hold(bool(read.native) and read.native in word, f"of {word!r} was kept {read.native!r}")


def wishes_are_said_or_refused(
    scheduler: Scheduler, site: Site, job: Job, harmless: Mapping[str, str]
) -> None:
    """What a plan asks is in the directives or refused by its field's name, and no two say the same."""
    said: dict[tuple[str, frozenset[str]], Wish] = {}
    for wish in wishes(job.id):
        if wish.field in harmless or (lines := _said(scheduler, site, wish)) is None:
            continue
        text = "\n".join(sorted(lines))
        heard = bool(lines) and all(re.search(part, text) for part in wish.said)
        _hold(heard, f"{wish.field} is passed over in silence: {wish} became {text!r}")
        same = said.setdefault((wish.field, lines), wish)
        _hold(same is wish, f"{wish.field}: {wish} and {same} became the same, {text!r}")


def _said(scheduler: Scheduler, site: Site, wish: Wish) -> frozenset[str] | None:
    """Return the lines that only the wish has (or takes away); None where it is refused."""
    without = _head(scheduler, site, wish.without or PLAIN)
    plain = frozenset() if isinstance(without, PlanError) else without
    lines = _head(scheduler, site, wish.plan)
    if not isinstance(lines, PlanError):
        return lines ^ plain
    paths = [dotted(problem.path) for problem in lines.problems]
    named = any(f"{path}.".startswith(f"{wish.field}.") for path in paths)
    # What it stands on may be refused itself: a signal before a time limit, events of a mail.
    _hold(named or isinstance(without, PlanError), f"{wish.field} is refused without its name: {lines}")
    return None


def _head(scheduler: Scheduler, site: Site, plan: Plan) -> frozenset[str] | PlanError:
    try:
        lines = scheduler.directives(plan, site)
        written = msgspec.structs.replace(plan, directives=lines)
        return frozenset(line for line, _ in scheduler.header(written, "/runs/mnist-1"))
    except PlanError as error:
        return error
    except Exception as error:
        raise AssertionError(f"{plan} made {error!r}, which is no PlanError") from error


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

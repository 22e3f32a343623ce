"""The contract that every scheduler must fulfil, as functions that raise ``AssertionError``.

A plug-in's test is one call, with the native job states of each of its queries::

    contract.check(MY_SCHEDULER, answer="1234.pbs01", job_id="1234.pbs01", native_states=(QSTAT, HISTORY))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import HpcdistError, PlanError, SchedulerError, SubmissionUnknown, dotted
from hpcdist.base.fields import Model
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import ArraySpec, Dependency, Mail, SignalSpec, dependency_problems
from hpcdist.plan.model import Identity, JobSpec, Launch, Plan
from hpcdist.plan.placement import Group, Placement, Row
from hpcdist.plan.values import Origin
from hpcdist.schedulers.base import Installation, Query, Scheduler, Submission
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.site.fabric import JobFacts
from hpcdist.site.model import Site
from hpcdist.testing import MISSING, TIMED_OUT

# --- Plans with one request each, to check that a scheduler writes or refuses it

J = TypeVar("J", bound=JobSpec)

_PARSED: Final[Mapping[str, Callable[[str], Any]]] = {
    "array": ArraySpec.parse,
    "dependency": Dependency.parse,
    "signal": SignalSpec.parse,
}


class RequestCase(NamedTuple):
    """One request: its field in an experiment, a plan with it, and the same plan without it.

    ``patterns``: regular expressions that must all match in the directives that the request adds; without
    any, the directives must only differ.
    """

    field: str
    plan: Plan
    patterns: tuple[str, ...] = ()
    without: Plan | None = None

    def __str__(self) -> str:
        """Return the differences to the plain plan, for a message."""
        return ", ".join(f"{name}={_text(name, value)!r}" for name, value in differences(self.plan, PLAIN))


def group(node: int = 0, **changes: Any) -> Group:
    """Return one node with one task that has one CPU, with these changes."""
    plain: dict[str, Any] = {
        "partition": None,
        "node_type": None,
        "gpu_type": None,
        "constraint": None,
        "node": node,
        "nodes": 1,
        "rank": node,
        "tasks_per_node": 1,
        "gpus": 0,
        "memory": None,
        "even": True,
        "cpus": 1,
    }
    values = plain | changes
    return Group(
        tasks=values["nodes"], cpus_per_task=values["cpus"], gpus_per_task=values["gpus"] or None, **values
    )


def differences(plan: Plan, other: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a plan's pieces that differ from another plan's, with their values."""
    for piece in (name for name in plan.__struct_fields__ if name != "origins"):
        own, their = getattr(plan, piece), getattr(other, piece)
        if isinstance(own, Model) and type(own) is type(their):
            fields = ((name, getattr(own, name)) for name in own.__struct_fields__)
            yield from ((name, value) for name, value in fields if value != getattr(their, name))
        elif own != their:
            yield piece, own


def altered(plan: J, **changes: Any) -> J:
    """Return the plan, or an earlier stage of it, with changes of pieces, or of fields of one piece.

    ``facts`` repeats what other pieces say, and changes as a whole only.
    An array, dependency or signal may be given as text, as in an experiment.
    """
    changes = {name: _read(name, value) for name, value in changes.items()}
    pieces: dict[str, dict[str, Any]] = {}
    for name in changes.keys() - {*plan.__struct_fields__}:
        (home,) = (
            piece
            for piece in plan.__struct_fields__
            if piece != "facts" and name in getattr(getattr(plan, piece), "__struct_fields__", ())
        )
        pieces.setdefault(home, {})[name] = changes.pop(name)
    inner = {home: msgspec.structs.replace(getattr(plan, home), **fields) for home, fields in pieces.items()}
    return msgspec.structs.replace(plan, **inner, **changes)


def _text(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_text(name, item) for item in value)
    return str(value) if name in _PARSED else value


def _read(name: str, value: Any) -> Any:
    if isinstance(value, tuple) and name in _PARSED:
        return tuple(_read(name, item) for item in value)
    return _PARSED[name](value) if name in _PARSED and isinstance(value, str) else value


def plan(*groups: Group, **changes: Any) -> Plan:
    """Return the plain plan with these groups, and with changes as `altered` takes them."""
    shape = Placement(groups=groups, rows=tuple(map(_row, groups))) if groups else PLAIN.placement
    return altered(PLAIN, placement=shape, **changes)


def _row(of: Group) -> Row:
    return Row(
        role="worker",
        index=of.rank,
        rank=of.rank,
        tasks=of.nodes,
        tasks_per_replica=1,
        tasks_per_node=1,
        node=of.node,
        local_rank=0,
        cpu=0,
        cpus=of.cpus,
        gpu=0,
        gpus=of.gpus,
        memory=of.memory,
    )


PLAIN: Final = Plan(
    identity=Identity(name="mnist", site="anywhere", scheduler="any", command="python train.py"),
    placement=Placement(groups=(group(),), rows=(_row(group()),)),
    facts=JobFacts(1),
    launch=Launch(launcher="mpirun"),
)

_LIMITED: Final = plan(walltime=Walltime(5400))
_MAILED: Final = plan(mail=Mail("me@example.org", ()))

_ARRAYS: Final = {
    "1-9": ("1-9",),
    "1-9:2": ("1-9:2",),
    "1-9%4": ("1-9", r"\b4\b"),
    "0-3": ("0-3",),
    "1,5,7": ("1", "5", "7"),
}
_DEPENDENCIES: Final = (
    "afterok:ID", "afterany:ID", "afternotok:ID", "after:ID", "aftercorr:ID", "after:ID+5", "singleton",
    "afterok:ID,afterany:ID", "afterok:ID?afterany:ID",
)  # fmt: skip
_SIGNALS: Final = {
    "USR1@120": ("USR1", r"\b(120|2)\b"),
    "USR1@600": ("USR1", r"\b(600|10)\b"),
    "INT@120": ("INT",),
    "KILL@120": ("KILL",),
}


def request_cases(job_id: str) -> Iterator[RequestCase]:
    """Yield all requests; all of one field differ. Some depend on the job ``job_id``."""
    yield RequestCase("batch.account", plan(account="proj-x7"), ("proj-x7",))
    yield RequestCase("batch.partition", plan(group(partition="queue-x7")), ("queue-x7",))
    yield RequestCase("batch.qos", plan(qos="qos-x7"), ("qos-x7",))
    yield RequestCase("batch.walltime", plan(walltime=Walltime(5400)), (r"\b(0?1:30|90|5400s?)\b",))
    yield RequestCase("batch.walltime", plan(walltime=Walltime(10800)), (r"\b(0?3:00|180|10800s?)\b",))
    yield RequestCase("batch.constraint", plan(group(constraint="model=x7")), ("model=x7",))
    yield RequestCase(
        "batch.exclusive", plan(exclusive=True, origins={"exclusive": Origin("place", "experiment.yml:1")})
    )
    yield RequestCase("batch.requeue", plan(requeue=True))
    yield RequestCase("batch.directives", plan(extra_directives=("hello x7",)), ("x7",))
    yield RequestCase("horovod.elastic", plan(elastic=True))
    yield from _lists(job_id)
    yield from _shapes()


def _lists(job_id: str) -> Iterator[RequestCase]:
    for text, patterns in _ARRAYS.items():
        yield RequestCase("batch.array", plan(array=text), patterns)
    for text in _DEPENDENCIES:
        dependency = text.replace("ID", job_id)
        if any(dependency_problems([dependency], ())):
            continue  # not valid in an experiment: ids of PBS cannot have a delay
        waits = plan(dependency=(dependency,))
        yield RequestCase("batch.dependency", waits, (re.escape(job_id if "ID" in text else text),))
    for text, patterns in _SIGNALS.items():
        yield RequestCase("batch.signal", plan(walltime=Walltime(5400), signal=text), patterns, _LIMITED)
    for event in ("begin", "end", "fail", "all", "time_limit_80"):
        mailed = plan(mail=Mail("me@example.org", (event,)))
        yield RequestCase("batch.mail", mailed, (), _MAILED)
    yield RequestCase("batch.mail", _MAILED, ("me@example.org",))


def _shapes() -> Iterator[RequestCase]:
    resources = "environment.resources"
    yield RequestCase(f"{resources}.cpu", plan(group(cpus=5)), (r"\b5\b",))
    yield RequestCase(f"{resources}.memory", plan(group(memory=7000)), ("7000",))
    yield RequestCase(f"{resources}.gpu", plan(group(gpus=3)), (r"\b3\b",))
    yield RequestCase("environment.replicas", plan(group(nodes=6)), (r"\b6\b",))
    two = plan(group(nodes=6), group(6, nodes=7, cpus=3))
    yield RequestCase("environment.replicas", two, (r"\b6\b", r"\b7\b"))


# --- The contract that every scheduler must fulfil, as functions that raise ``AssertionError``

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
"""Answers without information; banners of login nodes look like some of them."""


class NativeStates(NamedTuple):
    """The native states of one query, and a function that makes the query's answer for one of them.

    A state may be followed by details that ``answer`` needs (``F -29``); the status must contain a part of
    it. ``unknown``: a state that the batch system does not have, None if an answer cannot contain one.
    """

    words: Mapping[str, JobState]
    answer: Callable[[Job, str], str]
    unknown: str | None = "BROODING"


def check(  # noqa: PLR0913 (all by name)
    scheduler: Scheduler,
    *,
    answer: str,
    job_id: str,
    native_states: Sequence[NativeStates],
    site: Site | None = None,
    harmless: Mapping[str, str] | None = None,
) -> None:
    """Check the whole contract; ``answer`` is what the submit command prints for the job ``job_id``.

    ``native_states``: one for each query of the scheduler. ``site``: a site with all settings that the
    scheduler can use. ``harmless``: fields of an experiment that the scheduler may ignore, and why.
    """
    installation_is_complete(scheduler)
    commands_and_answers(scheduler, answer, job_id)
    job = Job(job_id, "mnist-1", SUBMISSION.directory, SUBMISSION.token)
    native_states_are_mapped(scheduler, job, native_states)
    machine = site or Site(
        name="anywhere", description="a machine", scheduler=scheduler.name, launcher="mpirun"
    )
    requests_are_written_or_refused(scheduler, machine, job, harmless or {})


def commands_and_answers(scheduler: Scheduler, answer: str, job_id: str) -> None:
    """Check the commands and how their answers are read; ``answer`` is what the submit command prints."""
    job = Job(job_id, "mnist-1", SUBMISSION.directory, SUBMISSION.token)
    submission_has_script_and_token(scheduler)
    job_id_is_read(scheduler, answer, job_id)
    unknown_submission_is_not_a_refusal(scheduler)
    junk_is_ignored(scheduler, job)
    commands_can_be_run(scheduler, job)


def installation_is_complete(scheduler: Scheduler) -> None:
    """``installation`` is None, or has a command, and a variable, a file or a question that confirm it."""
    known = scheduler.installation
    if known is None:
        return
    _require(isinstance(known, Installation), f"{known!r} is not an Installation")
    _require(scheduler.is_batch_system, f"{scheduler.name} has an installation, but is not a batch system")
    _require(bool(known.title and known.command), f"{known} has no title or no command")
    enough = known.variable or known.files or known.question
    _require(
        bool(enough),
        f"only {known.command} shows that {known.title} is set up; add a variable, files or a question",
    )
    _require(known.question is None or bool(known.denials), f"the question {known.question} needs denials")


def submission_has_script_and_token(scheduler: Scheduler) -> None:
    """The script is one word of the command, and the token is in its arguments or environment."""
    command = scheduler.submit(SUBMISSION)
    _require(SUBMISSION.script in command.argv, f"the script is not an argument of {command}")
    text = " ".join([*command.argv, *(value for _, value in command.environment)])
    _require(SUBMISSION.token in text, f"the token is not in {command}")


def job_id_is_read(scheduler: Scheduler, answer: str, job_id: str) -> None:
    """The job id is read from the answer of the submit command."""
    read = scheduler.read_submit(Completed(scheduler.submit(SUBMISSION), 0, answer))
    _require(read == job_id, f"{answer!r} was read as {read!r}, not {job_id!r}")


def unknown_submission_is_not_a_refusal(scheduler: Scheduler) -> None:
    """A missing program is a refusal; after a timeout, a kill or an unreadable answer the job may exist."""
    command = scheduler.submit(SUBMISSION)
    uncertain = (TIMED_OUT, Completed(command, -9), Completed(command, 0, "hello\n"))
    for completed in uncertain:
        error = _error(scheduler, completed._replace(command=command))
        _require(isinstance(error, SubmissionUnknown), f"{error!r} of {completed} is not a SubmissionUnknown")
    refusal = _error(scheduler, MISSING._replace(command=command))
    is_refusal = isinstance(refusal, SchedulerError) and not isinstance(refusal, SubmissionUnknown)
    _require(is_refusal, f"{refusal!r} of a missing program is not a refusal")


def junk_is_ignored(scheduler: Scheduler, job: Job) -> None:
    """Junk is read as no state and no token, and raises nothing but hpcdist's own errors."""
    for text in JUNK:
        for command in scheduler.find():
            for completed in _answers(command, text):
                tokens = scheduler.read_find(completed)
                _require(not tokens, f"find read {tokens} out of {text[:80]!r}")
        for query in scheduler.queries():
            for command in query.commands([job]):
                for completed in _answers(command, text):
                    states = query.read(completed, [job])
                    _require(not states, f"{command} read {states} out of {text[:80]!r}")


def commands_can_be_run(scheduler: Scheduler, job: Job) -> None:
    """No command is empty or contains a NUL byte, which no process accepts."""
    queries = (command for query in scheduler.queries() for command in query.commands([job]))
    for command in (*queries, *scheduler.find(), scheduler.cancel([job]), scheduler.submit(SUBMISSION)):
        _require(
            bool(command.argv) and not any("\0" in word for word in command.argv), f"cannot run {command}"
        )


def native_states_are_mapped(scheduler: Scheduler, job: Job, native_states: Sequence[NativeStates]) -> None:
    """Every native state is mapped to its state, an unknown one to ``UNKNOWN``; the native state is kept."""
    queries = scheduler.queries()
    _require(
        len(native_states) == len(queries),
        f"{len(queries)} queries, but native states of {len(native_states)}",
    )
    for query, native in zip(queries, native_states, strict=True):
        for word, state in native.words.items():
            _check_state(query, job, native, word, state)
        if native.unknown is not None:
            _check_state(query, job, native, native.unknown, JobState.UNKNOWN)
    missing = _REQUIRED - {state for native in native_states for state in native.words.values()}
    _require(
        not missing, f"no native state is mapped to {', '.join(sorted(state.value for state in missing))}"
    )


_REQUIRED: Final = frozenset({JobState.RUNNING, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


def _check_state(query: Query, job: Job, native: NativeStates, word: str, state: JobState) -> None:
    command = next(iter(query.commands([job])))
    read = query.read(Completed(command, 0, native.answer(job, word)), [job]).get(
        job.id, Status(JobState.UNSUBMITTED)
    )
    _require(read.state is state, f"{word!r} was read as {read.state.value}, not {state.value}")
    _require(bool(read.native) and read.native in word, f"of {word!r} only {read.native!r} was kept")


def requests_are_written_or_refused(
    scheduler: Scheduler, site: Site, job: Job, harmless: Mapping[str, str]
) -> None:
    """Each request of a plan is in the directives, or is refused by its field's name; all differ."""
    written: dict[tuple[str, frozenset[str]], RequestCase] = {}
    for case in request_cases(job.id):
        if case.field in harmless or (lines := _lines_of(scheduler, site, case)) is None:
            continue
        text = "\n".join(sorted(lines))
        is_written = bool(lines) and all(re.search(part, text) for part in case.patterns)
        _require(is_written, f"{case.field} is silently ignored: {case} became {text!r}")
        same = written.setdefault((case.field, lines), case)
        _require(same is case, f"{case.field}: {case} and {same} became the same, {text!r}")


def _lines_of(scheduler: Scheduler, site: Site, case: RequestCase) -> frozenset[str] | None:
    """Return the lines that the request adds or removes; None if it is refused."""
    without = _head(scheduler, site, case.without or PLAIN)
    plain = frozenset() if isinstance(without, PlanError) else without
    lines = _head(scheduler, site, case.plan)
    if not isinstance(lines, PlanError):
        return lines ^ plain
    paths = [dotted(problem.path) for problem in lines.problems]
    named = any(f"{path}.".startswith(f"{case.field}.") for path in paths)
    # The plan without it may be refused itself: a signal needs a time limit, events need a mail.
    _require(
        named or isinstance(without, PlanError),
        f"{case.field} is refused, but the problem does not name it: {lines}",
    )
    return None


def _head(scheduler: Scheduler, site: Site, plan: Plan) -> frozenset[str] | PlanError:
    try:
        lines = scheduler.directives(plan, site)
        written = msgspec.structs.replace(plan, directives=lines)
        return frozenset(line for line, _ in scheduler.header(written, "/runs/mnist-1"))
    except PlanError as error:
        return error
    except Exception as error:
        raise AssertionError(f"{plan} made {error!r}, which is not a PlanError") from error


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


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 (the subject of an assertion)
    if not condition:
        raise AssertionError(message)

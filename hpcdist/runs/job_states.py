"""The states of runs: from the batch system, else from the event log in the run directory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.command import Completed, Runner
from hpcdist.base.errors import comma_list
from hpcdist.runs import endings, event_states
from hpcdist.runs.elements import Elements
from hpcdist.runs.rundir import Phase, Run, RunDirectory, timestamp
from hpcdist.runs.services import Services, reread, run_parallel, with_deadline
from hpcdist.schedulers import answers, schedulers
from hpcdist.schedulers.base import Query, Scheduler
from hpcdist.schedulers.job import (
    APART,
    SIGNALLED,
    TERMINATED,
    Job,
    JobState,
    Rest,
    Status,
    fold,
    fold_array,
    split_id,
)

# --- Querying a batch system for jobs: each query asks for the jobs that earlier ones left unresolved

MISSING: Final = Status(
    JobState.UNKNOWN, reason="the batch system no longer knows this job", source="batch system"
)
VANISHED: Final = Status(
    JobState.VANISHED,
    reason="the batch system no longer knows this job, and how it ended is unknown",
    source="batch system",
)


class JobStatuses:
    """The statuses of one job: its own under None, its array elements' under their indices.

    ``settled`` statuses are definite: an end, or a live state. A later answer may replace ``hints``.
    ``others`` is the end of all elements that have no status here.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.settled: dict[int | None, Status] = {}
        self.hints: dict[int | None, Status] = {}
        self.others: Status | None = None

    @cached_property
    def elements(self) -> Elements:
        """The elements of the array, from the plan; in a search the numbers of its trials."""
        return endings.elements(self.job)

    def number(self, index: int) -> int:
        """Return the number of the element with this index: the number of its trial."""
        return (self.elements.at(index) if self.job.trials else None) or index

    def add(self, index: int | None, status: Status, *, provisional: bool) -> None:
        """Add an answer, unless it lags behind the queue, or is about another job with the same id."""
        if _is_other(self.hints.get(None)) or _contradicts(status, self.hints.get(index)):
            return
        status = self._with_whole_code(index, _with_components(status, self.hints.get(index)))
        final = status.state.is_final and not provisional and status.state is not JobState.VANISHED
        (self.settled if final or _is_live(status) else self.hints)[index] = status

    @cached_property
    def _logged(self) -> Mapping[int | None, Status]:
        return endings.read(self.job, self.elements)[0]

    def _with_whole_code(self, index: int | None, status: Status) -> Status:
        """Return the status with the exit code that the script wrote; Slurm shows 137 as ``9:0`` (tried)."""
        if not 0 < (status.exit_code or 0) < SIGNALLED or status.state is JobState.COMPLETED:
            return status
        whole = SIGNALLED + (status.exit_code or 0)
        ended = self._logged.get(index)
        return replace(status, exit_code=whole) if ended and ended.exit_code == whole else status

    def is_unresolved(self) -> bool:
        """Whether further queries are needed; the end of an array does not show how its elements ended."""
        if any(map(_is_live, self.settled.values())):
            return False
        hinted = {index for index in self.hints if index is not None}
        if not (hinted or self.elements):
            return None not in self.settled
        if not self.settled.keys() >= hinted:
            return True
        return self.others is None and any(True for _ in self.elements.outside(self.settled))

    def read_events(self) -> None:
        """Add the ends of the event log, where the batch system does not contradict them."""
        whole = self.settled.get(None, self.hints.get(None))
        ends, others = endings.read(self.job, self.elements)
        if others:
            ends = {index: others for index in self.hints if index in self.elements} | ends
            self.others = self._combined(others, whole)
        for index, ended in ends.items():
            combined = self._combined(ended, self.hints.get(index, whole))
            if combined and index not in self.settled:
                self.settled[index] = combined

    def _combined(self, ended: Status, hint: Status | None) -> Status | None:
        """Combine the end in the event log with the batch system's answer; None if that contradicts."""
        if hint is not None and _explains(hint, ended):
            return replace(hint, exit_code=ended.exit_code)
        if hint is None or not hint.native or hint is self.settled.get(None):
            return ended
        if hint.state is JobState.VANISHED:  # it is over; the batch system does not know how
            return ended
        return replace(hint, exit_code=ended.exit_code) if hint.state is ended.state else None

    def status(self, missing: Status = MISSING) -> Status | None:
        """Return the status of the whole job, with ``missing`` for unknown elements, or None."""
        parts = self.hints | self.settled
        whole = parts.get(None)
        elements = {index: status for index, status in parts.items() if index is not None}
        live = [status for status in parts.values() if _is_live(status)]
        if live:
            return fold(live)
        if not (elements or self.others) or _is_other(whole):
            return whole
        rest = self._rest(elements, self.others or whole or missing)
        folded = fold_array(elements, rest)
        told = whole and whole.state.is_final and whole.state is not JobState.VANISHED
        if told and folded.state is JobState.COMPLETED:
            return whole
        if not rest or folded is not MISSING:
            return folded
        lost = itertools.islice(self.elements.outside(elements), 10)
        which = comma_list(map(str, lost), size=rest.number)
        return replace(folded, reason=f"the batch system no longer knows these elements: {which}")

    def _rest(self, known: Mapping[int, Status], status: Status) -> Rest | None:
        """Return the elements without an answer, each with this status."""
        first = self.elements.first_outside(known)
        if first is None:
            return None
        return Rest(first, self.elements.size - sum(index in self.elements for index in known), status)


def _explains(end: Status, ended: Status) -> bool:
    """Whether the batch system's state explains why the job, by its event log, was ended by a signal."""
    by_signal = (ended.exit_code or 0) > SIGNALLED
    return by_signal and ended.state is JobState.FAILED and end.state in _REASONS


_REASONS: Final = frozenset(
    {JobState.CANCELLED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL, JobState.PREEMPTED}
)


def _is_live(status: Status) -> bool:
    return status.state is not JobState.UNKNOWN and not status.state.is_final


def _is_other(hint: Status | None) -> bool:
    """Whether the id now belongs to another job."""
    return hint is not None and not hint.native


def _contradicts(status: Status, hint: Status | None) -> bool:
    """Whether an answer is of another start than the queue's; out of memory is one way to fail."""
    if hint is None or not hint.state.is_final:
        return False
    return status.state not in {hint.state, JobState.OUT_OF_MEMORY if hint.state is JobState.FAILED else None}


def _with_components(status: Status, hint: Status | None) -> Status:
    """Return the status with how each component ended; the accounting has only one of them for a moment."""
    if hint and not status.reason and hint.state is status.state and hint.reason.startswith(APART):
        return replace(status, reason=hint.reason)
    return status


def _failure(completed: Completed) -> str:
    """Return why a command gave no answer, as the end of a sentence; empty if it answered."""
    if completed.timed_out:
        return f" within {completed.command.timeout:.0f} s"
    return f": {completed.stderr.strip()}" if not completed.ok and completed.stderr.strip() else ""


class QueryResults:
    """The answers about jobs so far; no id occurs twice.

    ``replied``: the first query, which lists live jobs, got all its answers. Otherwise an end in the event
    log proves nothing, as the job may be queued again, and no state is final.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.replied: bool | None = None
        self._known = {job.id: JobStatuses(job) for job in jobs}
        self._failure = ""
        self._unreachable = False

    def run(self, query: Query, runner: Runner) -> None:
        """Run a query for the jobs that are still unresolved."""
        left = [known.job for known in self._known.values() if known.is_unresolved()]
        commands = query.commands(left) if left else ()
        answered = run_parallel([partial(runner.run, command) for command in commands])
        if self.replied is None and answered:
            self.replied = all(completed.ok for completed in answered)
        for completed in answered:
            self._unreachable = self._unreachable or answers.is_unreachable(completed)
            self._failure = self._failure or _failure(completed)
            for key, status in query.read(completed, left).items():
                self._add(key, status, provisional=query.provisional)

    def _add(self, key: str, status: Status, *, provisional: bool) -> None:
        if known := self._known.get(key):
            known.add(None, status, provisional=provisional)
            return
        job_id, index = split_id(key)
        if index and (known := self._known.get(job_id)):
            known.add(known.number(int(index)), status, provisional=provisional)

    def read_events(self) -> None:
        """Add ends from event logs, if the queue was listed and does not have the jobs."""
        for known in self._known.values():
            if self.replied and known.is_unresolved():
                known.read_events()

    def status(self, job: Job) -> Status:
        """Return the status of a job."""
        return self._known[job.id].status() or self._unknown()

    def _unknown(self) -> Status:
        if self.replied:
            return MISSING
        return Status(JobState.UNKNOWN, reason=f"the batch system did not answer{self._failure}")

    def is_missing(self, job: Job) -> bool:
        """Whether the batch system answered without this job, or without some of its elements."""
        status = self.status(job)
        reachable = self.replied and not self._unreachable
        return bool(reachable) and status.state is JobState.UNKNOWN and not status.native

    def vanished(self, job: Job) -> Status:
        """Return the state of a job that has been missing for long; of an array, by its elements."""
        status = self._known[job.id].status(VANISHED)
        if status and status.state.is_final:
            return status
        never = "" if endings.has_started(job) else "; it never started"
        return replace(VANISHED, reason=f"{VANISHED.reason}{never}")

    def is_certain(self, job: Job) -> bool:
        """Whether the job's state cannot change any more; a failure without an exit code is queried again."""
        known = self._known[job.id]
        status = known.status()
        if not self.replied or status is None or not status.state.is_final:
            return False
        if None not in known.settled and known.is_unresolved():
            return False
        return status.state is not JobState.FAILED or status.exit_code is not None


def query_jobs(scheduler: Scheduler, jobs: Sequence[Job], runner: Runner) -> QueryResults:
    """Run the scheduler's queries; event logs are read before queries that run one command per job."""
    results = QueryResults(jobs)
    for query in scheduler.queries():
        if query.one_by_one:
            results.read_events()
        results.run(query, runner)
    results.read_events()
    return results


# --- The states of runs

GRACE: Final = 180.0
"""Seconds in which another process may still be submitting, or the job may not be listed yet.

`control` takes at most 136 s; `hpcdist.base.shell` ends the commands of a hpcdist that was killed.
"""

_VANISHED_AFTER: Final = 120.0
"""A job that is still unknown to the batch system after so many seconds has vanished."""

_MAX_SKEW: Final = 86400.0
"""Seconds that the clocks of two hosts of one batch system may differ at most."""

_TERMINATED: Final = (JobState.FAILED, TERMINATED)
"""How a job that lost a node may end before the batch system notices: its launcher is terminated."""

_KILLED: Final = (JobState.FAILED, SIGNALLED + 9)
"""How PBS ends a job that is deleted as it starts."""

_LOST_DAEMON: Final = (JobState.FAILED, 205)
"""How a job ends when mpirun of Open MPI 4 has lost its daemon on a node: with 205."""


class Report(NamedTuple):
    """A run and its job's status; for several jobs, their combined status and a report on each."""

    run: Run
    status: Status
    several: tuple[Report, ...] = ()

    @property
    def jobs(self) -> tuple[Report, ...]:
        """A report on each job of the run."""
        return self.several or (self,)

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, or was never submitted."""
        return self.status.state.is_final or self.status.state is JobState.UNSUBMITTED

    @property
    def no_reply(self) -> bool:
        """Whether the batch system did not answer."""
        return self.status.state is JobState.UNKNOWN and not self.status.source

    @property
    def is_missing(self) -> bool:
        """Whether the batch system does not list the job, or an element of it: not yet, or no longer."""
        return self.status.state is JobState.UNKNOWN and self.status.source == MISSING.source


def status(runs: Sequence[Run], services: Services) -> list[Report]:
    """Return what is known of these runs, at the cost of one squeue (or its like) for all of their jobs.

    A record in phase ``submitting`` is brought up to date if the job left a trace or the batch system knows
    its token. A certain end is stored in the record, and not queried again. Several schedulers are queried in
    parallel, each for a minute at most (`hpcdist.runs.services`).
    """
    by_scheduler: dict[tuple[str, str], list[Run]] = {}
    for run in itertools.chain.from_iterable(run.jobs for run in runs):
        where = run.record.remote, run.record.scheduler
        by_scheduler.setdefault(where, []).append(run._replace(later=()))
    calls = [partial(_of_scheduler, name, group, services) for (_, name), group in by_scheduler.items()]
    found = itertools.chain.from_iterable(run_parallel(calls))
    reports = {report.run.directory: report for report in found}
    return [of_jobs([reports[job.directory] for job in run.jobs]) for run in runs]


def of_jobs(jobs: Sequence[Report]) -> Report:
    """Combine the reports on a run's jobs; the end of a job that another continued does not count."""
    first, *later = jobs
    if not later:
        return first
    run = first.run._replace(later=tuple(job.run for job in later))
    whole = _whole(run, jobs)
    if not whole.state.is_final or whole.state is not JobState.COMPLETED:
        which = next(job for job in jobs if job.status is whole)
        name = which.run.record.job_id or f"{which.run.directory.number} of {len(jobs)}"
        whole = replace(whole, reason=f"job {name}" + (f": {whole.reason}" if whole.reason else ""))
    return Report(run, whole, tuple(jobs))


def _whole(run: Run, jobs: Sequence[Report]) -> Status:
    events = run.directory.events() if run.is_followed else ()
    last = event_states.last_attempt(run, events)
    if last is not None and jobs[last].is_over:
        # A job that was lost in the steps after the last attempt leaves them to a follower.
        followers = jobs[last + 1 :] if event_states.is_in_steps(events, run.jobs[last].event_id) else ()
        if all(job.is_over for job in followers):
            return jobs[last].status
    numbered = enumerate(job.status for job in jobs)
    return fold([one for place, one in numbered if place >= run.continued or not one.state.is_final])


def _of_scheduler(name: str, runs: Sequence[Run], services: Services) -> list[Report]:
    """Query one scheduler of one machine for all its runs, within one deadline."""
    if live := [run for run in runs if run.record.ended is None]:
        services = services.looking(live)
    services = services._replace(runner=with_deadline(services.runner, services.now))
    settled, answered = find_lost_jobs(runs, services)
    results = _query(name, settled, services)
    if found := _by_tokens(name, settled, results, services):
        settled = [found.get(run.directory, run) for run in settled]
        results |= _query(name, found.values(), services)
    return [_report(run, results, answered, services) for run in settled]


def _query(name: str, runs: Iterable[Run], services: Services) -> dict[Job, QueryResults]:
    jobs = [run.job for run in runs if run.job is not None and run.record.ended is None]
    results: dict[Job, QueryResults] = {}
    for batch in _batches(jobs):
        results |= dict.fromkeys(batch, query_jobs(schedulers.get(name), batch, services.runner))
    return results


def _by_tokens(
    name: str, runs: Iterable[Run], results: Mapping[Job, QueryResults], services: Services
) -> dict[RunDirectory, Run]:
    """Return the runs for which sbatch, or a wrapper of it, printed wrong job ids, with the right ids.

    A job that the batch system does not list is looked up by its token, once.
    """
    missing = [
        (run, job)
        for run in runs
        if (job := run.job)
        and job in results
        and not run.record.missing_since
        and results[job].is_missing(job)
    ]
    own = find_tokens(schedulers.get(name), services)[0] if missing else {}
    return {
        run.directory: services.try_update(run, job_id=job_id)
        for run, job in missing
        if (job_id := own.get(run.record.token)) and _number(job_id) != _number(job.id)
    }


def _number(job_id: str) -> str:
    """Return the id without the cluster or the server after it."""
    return re.split("[;.[]", job_id)[0]


def find_lost_jobs(runs: Iterable[Run], services: Services) -> tuple[list[Run], frozenset[str]]:
    """Find the ids of jobs whose submission got no answer; return the runs and the schedulers that answered.

    The run directory is read first, as batch systems forget jobs; then each scheduler is queried once.
    """
    tokens: dict[str, Mapping[str, str]] = {}
    answered: set[str] = set()
    settled = []
    for run in runs:
        job_id = None
        if run.record.phase == Phase.SUBMITTING and not (job_id := _id_from_events(run)):
            name = run.record.scheduler
            if name not in tokens:
                tokens[name], replied = find_tokens(schedulers.get(name), services)
                answered |= {name} if replied else set()
            job_id = tokens[name].get(run.record.token)
        settled.append(_with_found_job(run, job_id, services))
    return settled, frozenset(answered)


def _with_found_job(run: Run, job_id: str | None, services: Services) -> Run:
    """Return the run with the id that was found, unless its own `submit` has recorded one in the meantime.

    If the time of the submission may be in the future by this host's clock, it is set to now.
    """
    if run.record.phase == Phase.SUBMITTING:
        run = reread(run)
    if run.record.phase != Phase.SUBMITTING:
        return run
    if job_id:
        return services.try_update(run, phase=Phase.ACCEPTED, job_id=job_id, message="")
    if not _is_trusted(age(run, services), run, services):
        return services.try_update(run, submitted_at=timestamp(services.now()), clock=services.host)
    return run


def age(run: Run, services: Services) -> float:
    """Return the seconds since its submission began; negative if the clock of that host is ahead."""
    began = datetime.fromisoformat(run.record.submitted_at or run.record.created_at)
    return services.now() - began.timestamp()


def _is_trusted(seconds: float, run: Run, services: Services) -> bool:
    """Whether so many seconds have certainly passed, given that another host's clock may be off."""
    return seconds >= (0 if run.record.clock == services.host else _MAX_SKEW)


def _id_from_events(run: Run) -> str | None:
    """Return the id of its job by the event log, which does not show which of several jobs it is."""
    if run.record.jobs > 1 or run.directory.number > 1:
        return None
    ids = (event.job_id for event in run.directory.events() if event.what in ("submitted", "started"))
    return next((split_id(job_id)[0] for job_id in ids), None)


def find_tokens(scheduler: Scheduler, services: Services) -> tuple[dict[str, str], bool]:
    """Return job ids by token, and whether the batch system answered."""
    found: dict[str, str] = {}
    answers = [services.runner.run(command) for command in scheduler.find()]
    for completed in answers:
        found = {**scheduler.read_find(completed), **found}
    return found, bool(answers) and answers[0].ok


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Split jobs so that no id occurs twice in a batch: process ids and ids of a new controller recur."""
    batches: list[dict[str, Job]] = []
    for job in jobs:
        batch = next((batch for batch in batches if job.id not in batch), None)
        if batch is None:
            batches.append(batch := {})
        batch[job.id] = job
    return (list(batch.values()) for batch in batches)


def _report(
    run: Run, results: Mapping[Job, QueryResults], answered: frozenset[str], services: Services
) -> Report:
    if run.record.ended is not None:
        return Report(run, run.record.ended)
    if run.job is None:
        return Report(run, _status(run, answered, services))
    result = results[run.job]
    status = _of_training(run, result.status(run.job))
    if result.is_missing(run.job):
        return _missing(run, run.job, result, services)
    if result.is_certain(run.job):
        status = _with_lost_nodes(run, run.job, status, services)
        run = services.try_update(run, ended=status, missing_since=None)
    elif result.replied and run.record.missing_since:
        run = services.try_update(run, missing_since=None)
    return Report(run, status)


def _with_lost_nodes(run: Run, job: Job, status: Status, services: Services) -> Status:
    """Return the status with the names of nodes that are down, if that may be why the job ended.

    If that is sure, the event log gets them, too; a remote run's log also there, or the next look would undo
    it.
    """
    scheduler = schedulers.get(run.record.scheduler)
    end = (status.state, status.exit_code)
    is_sure = status.state is JobState.NODE_FAIL or end == _LOST_DAEMON
    nodes = endings.nodes(job) if is_sure or end == _TERMINATED else ()
    _record_lost(run, job, [name for name in scheduler.lost_nodes(status) if name in nodes], services)
    if not nodes or (command := scheduler.ask_nodes(nodes)) is None:
        return status
    completed = services.runner.run(command)
    lost = [name for name in scheduler.read_nodes(completed) if name in nodes]
    how = f"{comma_list(lost)} {'is' if len(lost) == 1 else 'are'} down" if lost else ""
    if status.state is JobState.NODE_FAIL and len(nodes) == 1 and not lost:  # it may be up again
        lost, how = [*nodes], f"{nodes[0]} was lost"
    if is_sure:  # else they may have been lost after the job
        _record_lost(run, job, lost, services)
    return replace(status, reason=": ".join(filter(None, [status.reason, how])))


def _record_lost(run: Run, job: Job, lost: Sequence[str], services: Services) -> None:
    events = endings.losses(job, lost, services.now())
    endings.record(events)
    if run.record.remote and events:
        services.runner.run(endings.command_to_record(events))


def _of_training(run: Run, status: Status) -> Status:
    """Return the end of a job; its training may have completed before the job ended otherwise.

    A job that begins after its run was cancelled ends itself, or is killed: it counts as cancelled.
    """
    if not status.state.is_final or status.state is JobState.COMPLETED:
        return status
    events = run.directory.events()
    if not event_states.has_completed(events, run.event_id):
        own = [event for event in events if event.job_id == run.event_id]
        is_killed = (status.state, status.exit_code) in (_TERMINATED, _KILLED)
        is_cancelled = is_killed and event_states.cancelled_at(own) is not None
        return replace(status, state=JobState.CANCELLED) if is_cancelled else status
    reason = f"its job was {status.state.value} when the program had ended"
    reason = f"{reason}: {status.reason}" if status.reason else reason
    return Status(JobState.COMPLETED, status.native, 0, reason, status.source)


def _missing(run: Run, job: Job, result: QueryResults, services: Services) -> Report:
    """Report a job that the batch system does not list: it counts as vanished only after a grace period."""
    since = run.record.missing_since
    lasted = services.now() - datetime.fromisoformat(since).timestamp() if since else -1.0
    if not _is_trusted(lasted, run, services):
        run = services.try_update(run, missing_since=timestamp(services.now()), clock=services.host)
    elif lasted >= _VANISHED_AFTER:
        return Report(run, _of_training(run, result.vanished(job)))
    return Report(run, result.status(job))


def _status(run: Run, answered: frozenset[str], services: Services) -> Status:
    """Return the status of a run without a job."""
    if run.record.phase == Phase.REFUSED:
        return Status(JobState.UNSUBMITTED, "refused", reason=run.record.message, source="record")
    if run.record.phase == Phase.CREATED:
        reason = "it was created, but never submitted"
        return Status(JobState.UNSUBMITTED, "created", reason=reason, source="record")
    return _submission_status(run, answered, services)


def _submission_status(run: Run, answered: frozenset[str], services: Services) -> Status:
    """Return the status of a submission whose answer was lost and whose job was not found."""
    if run.record.scheduler not in answered:
        reason = "its submission got no answer, and the batch system cannot be queried now"
    elif (left := GRACE - age(run, services)) > 0:
        reason = f"its submission got no answer yet; check again in {left:.0f} s"
    else:
        reason = "its submission got no answer, and the batch system has no such job"
        return Status(JobState.UNSUBMITTED, "submitting", reason=reason, source="record")
    return Status(JobState.UNKNOWN, "submitting", reason=reason, source="record")

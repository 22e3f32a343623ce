"""The states of runs: from the batch system, else from the event log in the run directory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.errors import comma_list
from hpcdist.runs import endings, state
from hpcdist.runs.deadline import run_parallel, with_deadline
from hpcdist.runs.querying import MISSING, QueryResults, query_jobs
from hpcdist.runs.rundir import Phase, Run, RunDirectory, timestamp
from hpcdist.runs.services import Services, reread
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Scheduler
from hpcdist.schedulers.job import SIGNALLED, TERMINATED, Job, JobState, Status, fold, split_id

GRACE: Final = 180.0
"""Seconds in which another process may still be submitting, or the job may not be listed yet.

`control` takes at most 136 s; `hpcdist.host.shell` ends the commands of a hpcdist that was killed.
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
"""How a job ends whose mpirun, that of Open MPI 4, has lost its daemon on a node: it says 205."""


class Report(NamedTuple):
    """A run and the status of its job; of several jobs what they come to, with a report on each."""

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

    A record that stands at ``submitting`` is settled where the job left a trace or the batch system knows
    its token, and is then brought up to date. A certain end is kept in the record, and not asked for again.
    Several schedulers are asked side by side, each for a minute at most (`hpcdist.runs.deadline`).
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
    """Return the report on a run by those on its jobs; an end does not count where another job went on."""
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
    last = state.last_attempt(run, events)
    if last is not None and jobs[last].is_over:
        # A job that was lost in the steps after the last attempt leaves them to a follower.
        followers = jobs[last + 1 :] if state.is_in_steps(events, run.jobs[last].event_id) else ()
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
    """Return the runs whose jobs have other ids than sbatch, or a wrapper of it, told, with the right ones.

    A job is looked for by its token when the batch system does not list it, once.
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
    """Return the id without the cluster or the server behind it."""
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

    Where it is, the event log gets them, too; that of a run on another machine there as well, or the next
    look would replace the one here.
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
    at = services.now()
    endings.record_lost(job, lost, at)
    if run.record.remote and lost:
        services.runner.run(endings.command_to_record_lost(job, lost, at))


def _of_training(run: Run, status: Status) -> Status:
    """Return the end of a job; its training may have completed before the job met another end.

    A job that begins when its run was cancelled ends itself, or is killed, as if it was cancelled with it.
    """
    if not status.state.is_final or status.state is JobState.COMPLETED:
        return status
    events = run.directory.events()
    if not state.has_completed(events, run.event_id):
        own = [event for event in events if event.job_id == run.event_id]
        is_killed = (status.state, status.exit_code) in (_TERMINATED, _KILLED)
        is_cancelled = is_killed and state.cancelled_at(own) is not None
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

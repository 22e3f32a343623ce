"""Ending jobs: those that live, those that are not listed yet, and what is left of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcdist.errors import Problem, SchedulerError
from hpcdist.runs import endings
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report, status
from hpcdist.schedulers import KnowsLeftovers, schedulers
from hpcdist.schedulers.job import Job


def cancel(runs: Sequence[Run], services: Services) -> list[Run]:
    """End the jobs of these runs; return the runs for whose job the batch system took the order.

    A job that is over stays as it is, unless it has left processes behind. So does one that has got the id of
    a job of these runs: only what carries a run's token is ended. A job that the batch system does not list
    may have been submitted just now: the order is given all the same.

    Raises:
        SchedulerError: when the batch system refused or did not answer, or a run's job is not known.
    """
    reports = status(runs, services)
    problems: list[Problem] = []
    ended: list[Run] = []
    for group in _groups(reports):
        found = list(_not_cancelled(group, services))
        problems += found
        ended += [] if found else [report.run for report in group]
    problems += _no_reply(reports)
    if problems:
        raise SchedulerError(*problems)
    return [report.run for report in reports if report.run in ended]


def _groups(reports: Sequence[Report]) -> list[list[Report]]:
    """Return the jobs to end, those of one command together; what is not listed may spoil no other's."""
    groups: dict[tuple[str, bool], list[Report]] = {}
    for report in reports:
        if report.run.job is not None and _can_be_ended(report):
            groups.setdefault((report.run.record.scheduler, report.is_missing), []).append(report)
    return list(groups.values())


def _can_be_ended(report: Report) -> bool:
    """Whether the job lives and is the run's own, or may do so, or has left processes behind."""
    if report.status.state.is_final:
        scheduler = schedulers.get(report.run.record.scheduler)
        return isinstance(scheduler, KnowsLeftovers) and scheduler.has_leftovers(report.status)
    return bool(report.status.native) or report.is_missing


def _not_cancelled(group: Sequence[Report], services: Services) -> Iterator[Problem]:
    """End these jobs of one batch system; yield why that was not done."""
    name = group[0].run.record.scheduler
    jobs = [report.run.job for report in group if report.run.job is not None]
    try:
        completed = services.runner.run(schedulers.get(name).cancel(jobs))
    except SchedulerError as error:
        yield from error.problems
        return
    if not completed.ok:
        why = completed.stderr.strip() or f"exit code {completed.returncode}"
        yield _not_listed(name, jobs, why) if group[0].is_missing else _refused(why)
        return
    for job in jobs:
        endings.note_cancelled(job, services.now())


def _refused(why: str) -> Problem:
    return Problem(f"the jobs could not be cancelled: {why}")


def _not_listed(name: str, jobs: Sequence[Job], why: str) -> Problem:
    """Return what to say of jobs that may have ended, or may not be listed yet."""
    ids = ", ".join(f"{job.id} ({job.name})" for job in jobs)
    hint = "a job that was submitted just now may be listed later: cancel again in a minute"
    return Problem(f"whether {ids} lives is not known: {name} does not list it, and {why}", hint=hint)


def _no_reply(reports: Sequence[Report]) -> Iterator[Problem]:
    """Yield why jobs are as they were: nobody answered, or there may be none."""
    silent: dict[str, list[str]] = {}
    for run, said in (report for report in reports if report.no_reply and report.run.job):
        silent.setdefault(said.reason, []).append(f"{run.record.job_id} ({run.name})")
    for reason, jobs in silent.items():
        yield Problem(f"not cancelled: {', '.join(jobs)}: {reason}", hint="cancel again when it answers")
    if lost := [report.run for report in reports if _is_lost(report.run)]:
        hint = "; ".join(["ask `hpcdist status` in some minutes", *filter(None, map(discard_hint, lost))])
        names = ", ".join(run.name for run in lost)
        yield Problem(f"whether there is a job of {names} is not known", hint=hint)


def discard_hint(run: Run) -> str:
    """Return how its user discards a run whose submission may never be settled; of others nothing."""
    if not _is_lost(run):
        return ""
    return f"if you know that {run.name} has no job, remove `{run.directory.path}`"


def _is_lost(run: Run) -> bool:
    return run.job is None and run.record.phase == Phase.SUBMITTING
